"""Closing: what time it is, which windows are ripe by then, and what is told of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter

from acemq_amqp.eventlog.store import WindowKey, WindowRow
from acemq_amqp.eventlog.windows.clocks import clock_of
from acemq_amqp.eventlog.windows.opened import after, dumped, loaded, result_of
from acemq_amqp.eventlog.windows.progress import Progress
from acemq_amqp.eventlog.windows.timing import ProcessingTime, Timing
from acemq_amqp.eventlog.windows.values import Closed, Folded, WindowPlan, WindowResult


def advanced(progress: Progress, timing: Timing, clock: float, read: float = 0.0) -> Progress:
    """The time it is once a stream has been read to its end.

    In processing time the clock's. In event time, where idle lanes follow, the lead and what has
    passed by the clock since the last message, less what they may be behind.

    :param clock: now, in seconds since the epoch
    :param read: publish time of the last message that was read; 0 where it is not known
    """
    if isinstance(timing, ProcessingTime):
        return Progress(max(progress.floor, clock))
    if timing.follows is None:
        return progress
    passed = max(0.0, clock - read) if read else 0.0
    floor = max(progress.floor, progress.lead + passed - timing.follows)
    return replace(progress, floor=floor)


def due(progress: Progress, timing: Timing) -> list[tuple[str | None, float]]:
    """What to ask ``LogStore.ripe`` for: (lane, upto) pairs; lane None is every lane.

    Where it gives as many as it was asked for at most, there are more: ask again after the
    commit, before :meth:`Progress.committed`.
    """
    together = isinstance(timing, ProcessingTime) or timing.follows is not None
    ahead = [
        (lane, mark)
        for lane, mark in progress.moved.items()
        if not together or mark > progress.floor
    ]
    return [(None, progress.floor), *ahead] if together else [*ahead]


def closed(ripe: Iterable[WindowRow], folded: Folded, plan: WindowPlan) -> Closed:
    """What a cycle writes: what was folded, and what is ripe of that and of the store's rows.

    :param ripe: what the store had, as of before the cycle; rows that were folded are passed over
    :param folded: for a flush, ``Folded.nothing(progress)``
    """
    at = clock_of(folded.progress, plan.timing).at
    results, kept, gone = list(folded.results), [], list(folded.gone)
    for row in _rows(ripe, folded).values():
        if row.closes > at(row.lane):
            kept.append(row)
            continue
        result, left = _told(row, at(row.lane), plan)
        if result is not None:
            results.append(result)
        if left is None:
            gone.append((row.lane, row.key, row.start))
        else:
            kept.append(left)
    return Closed(sorted(results, key=_ORDER), kept, gone)


def forgettable(progress: Progress, timing: Timing) -> float:
    """Below which watermark ``LogStore.forget_lanes`` may forget; ``-inf`` is none.

    Never above the floor, which stands for those lanes afterwards. Commit the floor before, and
    read the watermarks anew after.
    """
    if isinstance(timing, ProcessingTime):
        return -math.inf
    return min(progress.floor, progress.lead - timing.idle_lane_ttl)


def _rows(ripe: Iterable[WindowRow], folded: Folded) -> dict[WindowKey, WindowRow]:
    rows = {(row.lane, row.key, row.start): row for row in ripe}
    for key in folded.gone:
        rows.pop(key, None)
    return {**rows, **folded.rows}


def _told(
    row: WindowRow, now: float, plan: WindowPlan
) -> tuple[WindowResult | None, WindowRow | None]:
    """What is told of a ripe window, and what is left of it."""
    window = loaded(row, plan.aggregation)
    if window.told:
        return None, None
    result = result_of(row.lane, row.key, window, plan)
    if plan.timing.expires(window.end) <= now:
        return result, None
    return result, dumped(row.lane, row.key, after(window, result, plan), plan.aggregation)


_ORDER = attrgetter("end", "lane", "key", "start", "revision")
