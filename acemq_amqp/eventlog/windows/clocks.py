"""Time as folding meets it: what an event is judged by, and what it moves.

A clock is made from the progress as it was committed, is moved by events in their order, and
gives the progress to commit. It never goes back.
"""

from __future__ import annotations

from typing import Protocol

from acemq_amqp.eventlog.windows.progress import Progress
from acemq_amqp.eventlog.windows.timing import EventTime, ProcessingTime, Timing


class Clock(Protocol):
    """The time a stream and its lanes have come to."""

    def placed(self, time: float) -> float:
        """Where an event stands."""

    def at(self, lane: str) -> float:
        """The moment up to which a lane's windows have closed."""

    def see(self, lane: str, time: float) -> None:
        """Moves on to an event."""

    def progress(self) -> Progress:
        """What is to be committed."""


class ReadClock:
    """Processing time: one time for all lanes, the latest publish time that was read."""

    def __init__(self, progress: Progress, timing: ProcessingTime) -> None:
        self._now = progress.floor
        self._grace = timing.grace

    def placed(self, time: float) -> float:
        """Not before what has been closed: so every event finds an open window."""
        return max(time, self._now - self._grace)

    def at(self, lane: str) -> float:
        return self._now

    def see(self, lane: str, time: float) -> None:
        if time > self._now:
            self._now = time

    def progress(self) -> Progress:
        return Progress(self._now)


class LaneClock:
    """Event time: a watermark for each lane, and a floor for lanes that have none or are idle."""

    def __init__(self, progress: Progress, timing: EventTime) -> None:
        self._lanes, self._moved = dict(progress.lanes), dict(progress.moved)
        self._floor, self._lead = progress.floor, progress.lead
        self._disorder = timing.out_of_order
        self._follows = timing.follows is not None
        self._behind = timing.idle_lane_ttl if timing.follows is None else timing.follows

    def placed(self, time: float) -> float:
        return time

    def at(self, lane: str) -> float:
        own = self._lanes.get(lane)
        if own is None:
            return self._floor
        return max(own, self._floor) if self._follows else own

    def see(self, lane: str, time: float) -> None:
        mark, own = time - self._disorder, self._lanes.get(lane)
        if own is None:
            mark = max(mark, self._floor)
        elif mark <= own:
            return
        self._lanes[lane] = self._moved[lane] = mark
        if mark > self._lead:
            self._lead = mark
            self._floor = max(self._floor, mark - self._behind)

    def progress(self) -> Progress:
        return Progress(self._floor, self._lanes, self._lead, self._moved)


def clock_of(progress: Progress, timing: Timing) -> Clock:
    """The clock of a query's timing."""
    if isinstance(timing, EventTime):
        return LaneClock(progress, timing)
    return ReadClock(progress, timing)
