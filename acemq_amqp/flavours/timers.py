"""Callbacks that are due later, on one thread for a whole connection.

The thread starts with a timer, and ends when none has been due for a moment: a connection
at rest has the threads that it had at its start. Callbacks only enqueue, so one that is due
never holds up another.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger("acemq_amqp")

#: A thread with nothing to wait for is kept so long, in seconds.
_IDLE = 0.1


class ThreadTimer:
    """One callback; forgetting it leaves an empty entry that falls out when due."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class TimerThread:
    """A heap of due moments and the thread that watches it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, ThreadTimer]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def later(self, delay: float, callback: Callable[[], None]) -> ThreadTimer:
        """Calls back after ``delay`` seconds, unless cancelled or stopped before."""
        timer = ThreadTimer(callback)
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + delay, next(self._numbers), timer))
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._run, name="acemq-timers", daemon=True)
                self._thread.start()
            elif self._due[0][2] is timer:
                self._changed.notify()
        return timer

    def stop(self) -> None:
        """Ends the thread; callbacks still due are forgotten."""
        with self._changed:
            self._stopped = True
            self._due.clear()
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while (timer := self._next()) is not None:
            callback = timer.callback
            if callback is not None:
                try:
                    callback()
                except Exception:
                    log.exception("acemq: a timer's callback failed")

    def _next(self) -> ThreadTimer | None:
        with self._changed:
            while not self._stopped:
                if not self._due:
                    if not self._changed.wait(_IDLE) and not self._due:
                        break
                    continue
                remaining = self._due[0][0] - time.monotonic()
                if remaining <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(remaining)
            self._thread = None  # the next timer starts another
            return None
