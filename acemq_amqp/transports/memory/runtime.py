"""A turn: one operation on the broker, whole.

The broker is synchronous and has one lock. A turn takes it, lets happen what fell
due meanwhile, does the operation, lets happen what follows from it (dead letters,
deletions), gives the lock back and only then makes the calls that came of it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType

from acemq_amqp.transports.memory.calls import Calls
from acemq_amqp.transports.memory.clock import BrokerClock
from acemq_amqp.transports.memory.timetable import Timetable


class Runtime:
    """What everything in one broker shares. As a context manager it is a turn."""

    __slots__ = ("_consequences", "_lock", "calls", "clock", "follow", "timetable")

    def __init__(self, clock: BrokerClock) -> None:
        self._lock = threading.Lock()
        self._consequences: deque[Callable[[], None]] = deque()
        self.clock = clock
        self.calls = Calls()
        self.timetable = Timetable(clock, self._ring)
        #: ``follow(action)``: later in this turn, after the operation itself
        self.follow = self._consequences.append

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            self.timetable.run_due()
            self._settle()
        except BaseException:
            self._lock.release()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._settle()
        finally:
            self._lock.release()
            if self.calls:
                self.calls.make()

    def _settle(self) -> None:
        consequences = self._consequences
        while consequences:
            consequences.popleft()()

    def _ring(self) -> None:
        with self:
            self.timetable.rung()
