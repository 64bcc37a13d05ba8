"""Many deadlines, few timers.

Thousands of publishes wait at once, nearly all of them for a confirm that comes in
time. Their deadlines are rounded up to a grain, and all that fall into one grain share
one timer: waiting costs a set's add and discard.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final, Protocol

_GRAIN: Final = 0.02  # seconds


class Waiting(Protocol):
    def expire(self) -> None:
        """The deadline has come."""


class Deadlines:
    """Calls back what is still there at its deadline, at most a grain late."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: dict[int, set[Waiting]] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}

    def add(self, deadline: float, waiting: Waiting) -> set[Waiting]:
        """Takes a deadline in.

        :returns: the set to discard ``waiting`` from when it is not wanted any more
        """
        grain = int(deadline / _GRAIN) + 1
        due = self._due.get(grain)
        if due is None:
            due = self._due[grain] = set()
            delay = max(0.0, grain * _GRAIN - time.monotonic())
            self._timers[grain] = self._loop.call_later(delay, self._fall_due, grain)
        due.add(waiting)
        return due

    def close(self) -> None:
        """Forgets all deadlines."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._due.clear()

    def _fall_due(self, grain: int) -> None:
        self._timers.pop(grain, None)
        for waiting in self._due.pop(grain, set()):
            waiting.expire()
