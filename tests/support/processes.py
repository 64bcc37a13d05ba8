"""A program that never outlives the tests.

It runs in a session of its own, so that Ctrl-C reaches pytest and not the server under a test.
Beside it stands a guard: a shell that reads from a pipe whose other end is ours. However this
process ends, by a signal that nobody can catch too, the pipe ends with it, and the guard kills the
program.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_GUARD = 'read -r dismissed && exit; kill -s KILL -- "-$0"; [ -z "$1" ] || rm -rf -- "$1"'


class Process:
    """A running program.

    :param log: file that gets what it prints
    :param folder: removed as well, should the tests die without ending the program
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        folder: Path | None = None,
    ) -> None:
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARD, str(self.pid), str(folder or "")],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def state(self) -> str:
        """The kernel's letter for what the program does: S sleeps, R runs, T is stopped."""
        return _stat(self.pid)[0]

    def ended_within(self, seconds: float) -> bool:
        """Whether the program has ended, waiting so long for it."""
        try:
            self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        """Signals the program's whole group; nothing happens where it has ended."""
        if self._popen.poll() is None:
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """Kills the program and all that it started, and comes back when they are gone."""
        children = descendants(self.pid)
        self.signal(signal.SIGKILL)
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._popen.wait()
        self._dismiss_guard()

    def _dismiss_guard(self) -> None:
        if self._guard.stdin is not None and not self._guard.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._guard.stdin.write(b"dismissed\n")
                self._guard.stdin.close()
        self._guard.wait()


def descendants(pid: int) -> list[int]:
    """The processes that this one started, and those that they started, in no order."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            child = int(entry.name)
            children.setdefault(int(_stat(child)[1]), []).append(child)
    found: list[int] = []
    waiting = list(children.get(pid, ()))
    while waiting:
        child = waiting.pop()
        found.append(child)
        waiting += children.get(child, ())
    return found


def _stat(pid: int) -> list[str]:
    """The kernel's words on a process, from its state on; its name before them may hold spaces."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
