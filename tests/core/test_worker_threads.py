"""Worker threads: a process that was forked does not wait for those of its parent."""

from __future__ import annotations

from tests.acceptance.programs import run_python, surroundings

_FORKED = """
import asyncio, os, sys
from acemq_amqp.flavours.workers import WorkerThreads

threads = WorkerThreads(2, "worker")

def who():
    return asyncio.run(asyncio.wait_for(threads.run(os.getpid), 60)) == os.getpid()

assert who()
child = os.fork()
if child == 0:
    os._exit(0 if who() else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_has_threads_of_its_own() -> None:
    ended = run_python(["-W", "ignore", "-c", _FORKED], surroundings(None))
    assert (ended.returncode, ended.stderr) == (0, "")
