"""A rendezvous between a calling thread and the I/O thread.

The caller waits at a plain lock that the I/O thread releases: cheaper than an
event, and enough for one answer. Whoever settles first wins. An answer that comes
after the caller has gone is told so, and can be undone (a message pulled too late
is given back).
"""

from __future__ import annotations

import threading
import time
from typing import Generic, TypeVar, cast

from acemq_amqp.core.ports import Deadline

T = TypeVar("T")

#: what `Lock.acquire` takes for "as long as it needs"
_FOREVER = -1.0


def remaining(deadline: Deadline) -> float:
    """Seconds until a deadline, as `Lock.acquire` and `Thread.join` of a lock take them."""
    if deadline is None:
        return _FOREVER
    return min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)


class Reply(Generic[T]):
    """One answer, given once, waited for once."""

    __slots__ = ("_error", "_guard", "_open", "_value", "_wait")

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._wait = threading.Lock()
        self._wait.acquire()
        self._open = True
        self._value: T | None = None
        self._error: BaseException | None = None

    @property
    def open(self) -> bool:
        """Whether somebody still waits."""
        return self._open

    def set(self, value: T) -> bool:
        """Answers; False where the caller has gone or was answered before."""
        with self._guard:
            if not self._open:
                return False
            self._open, self._value = False, value
        self._wait.release()
        return True

    def fail(self, error: BaseException) -> bool:
        """Answers with an error, otherwise as :meth:`set`."""
        with self._guard:
            if not self._open:
                return False
            self._open, self._error = False, error
        self._wait.release()
        return True

    def abandon(self) -> bool:
        """Nobody waits any more; False where an answer came first."""
        with self._guard:
            abandoned, self._open = self._open, False
        return abandoned

    def wait(self, deadline: Deadline) -> T:
        """Waits for the answer.

        :raises TimeoutError: at the deadline; the reply is then closed for good
        """
        if not self._wait.acquire(timeout=remaining(deadline)) and self.abandon():
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return cast(T, self._value)
