"""Folding: which windows each event counts in, and what they know after it."""

from __future__ import annotations

from collections.abc import Iterable

from acemq_amqp.eventlog.store import WindowRow
from acemq_amqp.eventlog.windows.progress import Progress
from acemq_amqp.eventlog.windows.values import Event, Folded, WindowPlan


def fold_events(
    events: Iterable[Event], open: Iterable[WindowRow], plan: WindowPlan, progress: Progress
) -> Folded:
    """Folds events, in the order of the log, into windows.

    How they are batched changes nothing: each event is judged by the time that the events before
    it had come to.

    :param open: the windows that the store has of these events' lanes and keys
    :param progress: as the last commit left it, or :func:`~.closing.advanced` did
    """
    raise NotImplementedError
