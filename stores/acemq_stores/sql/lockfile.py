"""A lock file beside a SQLite database, so that its writers wait in turn.

SQLite's own busy time-out is a poll that starves under many writers. Whoever holds the file's lock
begins a transaction at once; all others wait here. The lock ends with its process, however that
ends; the file stays.
"""

from __future__ import annotations

import fcntl
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from acemq_amqp.errors import StoreError

_PAUSE = 0.001
_LONGEST_PAUSE = 0.01

_turns: dict[str, threading.Lock] = {}
_turns_guard = threading.Lock()
os.register_at_fork(after_in_child=_turns.clear)


class LockFile:
    """The lock of one database.

    :param database: path of the database; the lock is ``{database}-acemq-lock``
    """

    def __init__(self, database: str) -> None:
        self.path = os.path.realpath(database) + "-acemq-lock"

    @contextmanager
    def held(self, timeout: float) -> Iterator[None]:
        """Holds the lock, among threads and processes.

        :param timeout: seconds to wait for it
        :raises StoreError: not got in time, or the file cannot be made
        """
        deadline = time.monotonic() + timeout
        with _turns_guard:
            turn = _turns.setdefault(self.path, threading.Lock())
        # A process has its POSIX locks as a whole, so its threads take turns first.
        if not turn.acquire(timeout=timeout):
            raise self._too_late(timeout)
        try:
            descriptor = self._opened()
            try:
                self._lock(descriptor, deadline, timeout)
                yield
            finally:
                os.close(descriptor)  # unlocks
        finally:
            turn.release()

    def _opened(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as failure:
            raise StoreError(
                f"acemq: the lock file {self.path} cannot be opened: {failure.strerror}; SQLite "
                "stores need a folder that they can write to"
            ) from failure

    def _lock(self, descriptor: int, deadline: float, timeout: float) -> None:
        pause = _PAUSE
        while True:
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except (BlockingIOError, PermissionError):
                if time.monotonic() > deadline:
                    raise self._too_late(timeout) from None
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _too_late(self, timeout: float) -> StoreError:
        return StoreError(
            f"acemq: the database is locked: {self.path} was held by others for {timeout:g} s; "
            "look for a process that is stopped, or for a handler that keeps its transaction long"
        )
