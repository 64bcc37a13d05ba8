"""The broker's time: the machine's, or one that a test moves forward by hand.

Everything in the broker that is due later (expiries, unused queues) hangs on one
``call_at`` of its clock. The real clock answers from a timer thread; the test
clock from inside ``advance``, so that a wait of a week costs nothing and comes
out the same every time.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from typing import Protocol

from acemq_amqp.durations import Duration, seconds

#: seconds below which sums of floats do not agree
_GRAIN = 1e-6


class Wake(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Forgets the call, unless it already ran."""


class BrokerClock(Protocol):
    """Where the broker takes its time from."""

    @property
    def threaded(self) -> bool:
        """Whether a call that is due later holds a thread meanwhile."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""

    def monotonic(self) -> float:
        """Seconds of a clock that never steps back."""

    def reached(self, moment: float) -> bool:
        """Whether a moment of :meth:`monotonic` has come."""

    def call_at(self, moment: float, callback: Callable[[], None]) -> Wake:
        """Calls back at a moment of :meth:`monotonic`."""


class RealClock:
    """The machine's time."""

    threaded = True

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def reached(self, moment: float) -> bool:
        return moment <= time.monotonic()

    def call_at(self, moment: float, callback: Callable[[], None]) -> Wake:
        delay = min(max(0.0, moment - time.monotonic()), threading.TIMEOUT_MAX)
        timer = threading.Timer(delay, callback)
        timer.name = "acemq-memory-clock"
        timer.daemon = True
        timer.start()
        return timer


class _Due:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class TestClock:
    """Time that stands still until a test moves it.

    :param start: the first moment, in seconds since the epoch
    """

    __test__ = False  # a name that pytest would collect
    threaded = False

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start
        self._lock = threading.Lock()
        self._due: list[tuple[float, int, _Due]] = []
        self._numbers = itertools.count()

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def reached(self, moment: float) -> bool:
        return moment <= self._now + _GRAIN

    def call_at(self, moment: float, callback: Callable[[], None]) -> Wake:
        due = _Due(callback)
        with self._lock:
            heapq.heappush(self._due, (moment, next(self._numbers), due))
        return due

    def advance(self, duration: Duration) -> None:
        """Moves time forward; everything due on the way has happened when this returns.

        Each thing happens at its own moment, in order, so a message that waits twice for ten
        seconds has moved on twice after ``advance(20)``.

        :param duration: seconds or a timedelta, not negative
        """
        target = self._now + seconds(duration, "the time to advance")
        while (callback := self._next(target)) is not None:
            callback()
        self._now = target

    def _next(self, target: float) -> Callable[[], None] | None:
        with self._lock:
            while self._due and self._due[0][0] <= target + _GRAIN:
                moment, _, due = heapq.heappop(self._due)
                if due.callback is not None:
                    self._now = max(self._now, moment)
                    return due.callback
        return None
