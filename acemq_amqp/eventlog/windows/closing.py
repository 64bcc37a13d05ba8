"""Closing: what time it is, which windows are ripe by then, and what is told of them."""

from __future__ import annotations

from collections.abc import Iterable

from acemq_amqp.eventlog.store import WindowRow
from acemq_amqp.eventlog.windows.progress import Progress
from acemq_amqp.eventlog.windows.timing import Timing
from acemq_amqp.eventlog.windows.values import Closed, Folded, WindowPlan


def advanced(progress: Progress, timing: Timing, clock: float, read: float) -> Progress:
    """The time it is once a stream has been read to its end.

    :param clock: now, in seconds since the epoch
    :param read: publish time of the last message that was read; 0 where it is not known
    """
    raise NotImplementedError


def due(before: Progress, now: Progress, timing: Timing) -> list[tuple[str | None, float]]:
    """What to ask ``LogStore.ripe`` for: (lane, upto) pairs; lane None is every lane.

    :param before: as it was when nothing was ripe; ``Progress()`` asks for everything
    """
    raise NotImplementedError


def closed(ripe: Iterable[WindowRow], folded: Folded, plan: WindowPlan) -> Closed:
    """What a cycle writes: what was folded, and what is ripe of that and of the store's rows.

    :param ripe: what the store had, as of before the cycle; rows that were folded anew are passed
    :param folded: for a flush, ``Folded.nothing(progress)``
    """
    raise NotImplementedError


def forgettable(progress: Progress, timing: Timing) -> float:
    """Below which watermark ``LogStore.forget_lanes`` may forget; ``-inf`` is none."""
    raise NotImplementedError
