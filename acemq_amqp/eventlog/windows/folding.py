"""Folding: which windows each event counts in, and what they know after it.

An event is judged by the time that the events before it had come to, not by what the store has
closed by then. So how events are batched, and where a runner was killed, changes no result.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

from acemq_amqp.errors import MessageError
from acemq_amqp.eventlog.store import WindowRow
from acemq_amqp.eventlog.windows.clocks import clock_of
from acemq_amqp.eventlog.windows.ledger import Ledger
from acemq_amqp.eventlog.windows.merging import Merging
from acemq_amqp.eventlog.windows.placing import Placing
from acemq_amqp.eventlog.windows.progress import Progress
from acemq_amqp.eventlog.windows.values import Counts, Event, Folded, WindowPlan


def fold_events(
    events: Iterable[Event], open: Iterable[WindowRow], plan: WindowPlan, progress: Progress
) -> Folded:
    """Folds events, in the order of the log, into windows.

    How they are batched changes nothing, and no window but those of these events' keys is
    touched. Where a piece of a message cannot be counted, no piece of it is.

    :param open: the windows that the store has of these events' lanes and keys
    :param progress: as the last commit left it, or :func:`~.closing.advanced` did
    """
    clock = clock_of(progress, plan.timing)
    ledger = Ledger(open, plan.aggregation)
    place = (Merging if plan.kind.merges else Placing)(plan, clock, ledger).place
    failed: list[tuple[Event, MessageError]] = []
    for _, pieces in groupby(events, _OFFSET):
        ledger.begin()
        for piece in pieces:
            try:
                place(piece)
            except MessageError as error:
                ledger.undo()
                failed.append((piece, error))
                break
    rows, gone = ledger.written()
    counts = Counts(**ledger.counted())
    return Folded(rows, gone, ledger.results, ledger.side, failed, counts, clock.progress())


_OFFSET = attrgetter("offset")
