"""What is due when: a heap of moments behind a single call of the clock.

Nothing is ever taken out before its moment: what has become pointless finds that
out when it runs. So a queue through which a million expiring messages pass
writes one entry a period, not one a message.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from acemq_amqp.transports.memory.clock import BrokerClock, Wake


class Timetable:
    """Actions and their moments. Used under the broker's lock.

    :param ring: called by the clock at the earliest moment; it comes back with :meth:`rung`
    """

    def __init__(self, clock: BrokerClock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._wake: Wake | None = None
        self._wake_at = 0.0
        self._awake = not clock.threaded

    def at(self, moment: float, action: Callable[[], None]) -> None:
        """Runs an action at a moment of the clock, or at the first chance after it."""
        heapq.heappush(self._due, (moment, next(self._numbers), action))
        self._arm()

    def run_due(self) -> None:
        """Runs what is due."""
        while self._due and self._clock.reached(self._due[0][0]):
            heapq.heappop(self._due)[2]()

    def rung(self) -> None:
        """The clock called: runs what is due and asks for the next call."""
        self._wake = None
        self.run_due()
        self._arm()

    def wake(self) -> None:
        """From now on the clock is asked to call: there is a connection."""
        self._awake = True
        self._arm()

    def sleep(self) -> None:
        """No connection is left, so no thread is kept: what falls due waits for the next use."""
        if self._clock.threaded:
            self._awake = False
            self._disarm()

    def _arm(self) -> None:
        if not self._awake or not self._due:
            return
        earliest = self._due[0][0]
        if self._wake is None or earliest < self._wake_at:
            self._disarm()
            self._wake_at = earliest
            self._wake = self._clock.call_at(earliest, self._ring)

    def _disarm(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
