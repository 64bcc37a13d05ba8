"""A program that dies in the middle of a commit.

Called as ``python -m tests.stores.log.programs DATABASE GROUP STREAM``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def commit_and_die(database: str, group: str, stream: str) -> int:
    """Runs it; gives its end, as ``subprocess`` tells it."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "stores")])
    program = [sys.executable, "-m", "tests.stores.log.programs", database, group, stream]
    return subprocess.run(program, env={**os.environ, "PYTHONPATH": path}, cwd=ROOT).returncode


def main(database: str, group: str, stream: str) -> None:
    """Holds the stream, commits a step, and is killed before the last of it is written."""
    from acemq_amqp.eventlog.store import Step
    from acemq_amqp.patterns import OutboxRecord
    from acemq_amqp.patterns.waiting import driven
    from acemq_stores import SqlLogStore

    store = SqlLogStore(database)
    position = driven(store.hold(group, stream, "dies"))
    assert position is not None
    add_many = store.outbox.add_many

    def add_and_die(records: Any, *, connection: Any = None) -> Any:
        add_many(records, connection=connection)
        os.kill(os.getpid(), signal.SIGKILL)

    store.outbox.add_many = add_and_die  # type: ignore[method-assign]
    record = OutboxRecord(f"{group}-r", "", "q", b"{}")
    driven(store.commit(position.fence, "dies", Step(20, "m19", records=[record])))


if __name__ == "__main__":
    main(*sys.argv[1:])
