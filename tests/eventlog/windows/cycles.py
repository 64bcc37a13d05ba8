"""A runner without a log: cycles and flushes over what a store would keep, in memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import count
from typing import Any

from acemq_amqp.eventlog.store import Query, WindowKey, WindowRow
from acemq_amqp.eventlog.windows import (
    Aggregation,
    Event,
    Folded,
    Kind,
    ProcessingTime,
    Progress,
    Timing,
    WindowPlan,
    WindowResult,
    advanced,
    closed,
    due,
    fold_events,
)

QUERY = Query("totals", 1)
_offsets = count(1_000_000)


def amount(sale: Any) -> Any:
    return sale["amount"]


def event(time: float, amount: Any = 1, *, lane: str = "l", key: str = "k", at: int = 0) -> Event:
    return Event(lane, key, time, {"amount": amount}, at or next(_offsets))


def numbered(events: Iterable[Event]) -> list[Event]:
    """As a log has them: each under an offset of its own."""
    return [each._replace(offset=offset) for offset, each in enumerate(events)]


def totals() -> Aggregation:
    return Aggregation({"count": amount, "sum": amount, "max": amount, "avg": amount})


class Cycles:
    """What a query has come to: results, and what a store keeps."""

    def __init__(self, kind: Kind, timing: Timing | None = None, aggregation: Any = None) -> None:
        self.plan = WindowPlan(QUERY, kind, timing or ProcessingTime(), aggregation or totals())
        self.rows: dict[WindowKey, WindowRow] = {}
        self.watermarks: dict[str, float] = {}
        self.results: list[WindowResult] = []
        self.side: list[Event] = []
        self.failed: list[Event] = []
        self.counts: Counter[str] = Counter()

    def fold(self, *events: Event) -> Folded:
        """One cycle, of a runner that has just been started."""
        keys = {(each.lane, each.key) for each in events}
        open = [row for row in self.rows.values() if (row.lane, row.key) in keys]
        folded = fold_events(events, open, self.plan, Progress.of(self.watermarks))
        self._commit(folded)
        self.side += folded.side
        self.failed += [each for each, _ in folded.failed]
        self.counts += Counter(asdict(folded.counts))
        return folded

    def fold_in(self, batches: Iterable[Sequence[Event]]) -> Cycles:
        for batch in batches:
            self.fold(*batch)
        return self

    def flush(self, clock: float, read: float = 0.0) -> None:
        """The stream was read to its end, and it is that late."""
        progress = Progress.of(self.watermarks)
        self._commit(Folded.nothing(advanced(progress, self.plan.timing, clock, read)))

    def finish(self) -> Cycles:
        """Closes everything: the stream is at its end, and the end of time is near."""
        lanes = {row.lane for row in self.rows.values()}
        if isinstance(self.plan.timing, ProcessingTime):
            self.flush(1e12)
        else:
            progress = Progress(1e12, dict.fromkeys(lanes, 1e12), 1e12, dict.fromkeys(lanes, 1e12))
            self._commit(Folded.nothing(progress))
        assert not self.rows
        return self

    def final(self) -> list[WindowResult]:
        """Results that no other stands for."""
        replaced = {one for each in self.results for one in each.replaces}
        return [each for each in self.results if each.id not in replaced]

    def total(self, of: Callable[[WindowResult], Any] = lambda each: each.data["sum"]) -> Any:
        return sum(of(each) for each in self.final())

    def _commit(self, folded: Folded) -> None:
        ripe = {}
        for lane, upto in due(folded.progress, self.plan.timing):
            for at, row in self.rows.items():
                if row.closes <= upto and lane in (None, row.lane):
                    ripe[at] = row
        outcome = closed(ripe.values(), folded, self.plan)
        for key in outcome.gone:
            self.rows.pop(key, None)
        for row in outcome.rows:
            self.rows[row.lane, row.key, row.start] = row
        for lane, mark in folded.progress.watermarks().items():
            assert mark >= self.watermarks.get(lane, -math.inf)
            self.watermarks[lane] = mark
        self.results += outcome.results
