"""Whatever is asked of a store in whatever order, memory and SQLite give the same answers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from acemq_amqp import ConfigurationError
from acemq_amqp.eventlog.store import Fence, Position, Query, Step, WindowRow
from acemq_amqp.patterns import OutboxRecord
from acemq_amqp.patterns.waiting import driven
from tests.stores.log.stands import LEASE, Stand, sqlite_address

LANES = st.sampled_from(["a", "b", "c"])
#: the last one more often than those of before
FENCES = st.sampled_from([-1, -1, -1, -2, -3])
OFFSETS = st.integers(8, 16)
HOLDERS = st.sampled_from(["one", "two"])
TOKENS = st.sampled_from(["t", "u"])
IDS = st.lists(st.sampled_from(["w1", "w2", "w3"]), max_size=3)
PLACES = st.lists(st.tuples(LANES, OFFSETS), max_size=3).map(dict)
MOMENTS = st.sampled_from([0.0, 1.5, 3.0, 7.25])
CLOSES = st.sampled_from([1.0, 2.5, 4.0, math.inf])
KEYS = st.tuples(LANES, st.sampled_from(["k", "l"]), MOMENTS)
MARKS = st.dictionaries(st.sampled_from(["", "a", "b"]), MOMENTS, max_size=2)
ROWS = st.builds(
    lambda key, closes, revision: WindowRow(
        key[0], key[1], key[2], key[2] + 9, closes, revision, f"[{revision}]"
    ),
    KEYS,
    CLOSES,
    st.integers(0, 2),
)
_runs = itertools.count()


class TwoStores(RuleBasedStateMachine):
    """Asks both the same, and compares. Their epochs differ: fences are remembered in pairs."""

    stands: ClassVar[list[Stand]] = []

    def __init__(self) -> None:
        super().__init__()
        run = next(_runs)
        self.group, self.stream, self.query = f"g{run}", f"s{run}", f"q{run}"
        self.fences: tuple[list[Fence], ...] = ([Fence(self.group, self.stream, 0)] * 2,)
        self.queries = [Query(self.query, 1)]

    # ------------------------------------------------------------ asking

    def both(self, name: str, *values: Any) -> Any:
        """The answer of both."""
        return self.compared([[*values], [*values]], name)

    def fenced(self, name: str, which: int, *values: Any, **named: Any) -> Any:
        """The same, under a fence of before."""
        pair = self.fences[max(which, -len(self.fences))]
        return self.compared([[fence, *values] for fence in pair], name, **named)

    def compared(self, values: list[list[Any]], name: str, **named: Any) -> Any:
        answers = []
        for stand, given in zip(self.stands, values, strict=True):
            try:
                answers.append(driven(getattr(stand.store, name)(*given, **named)))
            except ConfigurationError as refusal:
                answers.append(str(refusal))
        one, two = answers
        if isinstance(one, Position) and isinstance(two, Position):
            self.remember([one.fence, two.fence])
        assert self.told(one) == self.told(two)
        return one

    def remember(self, pair: list[Fence]) -> None:
        if pair not in self.fences:
            self.fences = (*self.fences, pair)[-3:]

    def told(self, answer: Any) -> Any:
        """An answer without what may differ: epochs, and the order of what is equal."""
        if isinstance(answer, Position):
            return replace(answer, fence=Fence(self.group, self.stream, 0))
        if isinstance(answer, list) and answer and isinstance(answer[0], WindowRow):
            return sorted(answer, key=lambda row: (row.closes, row.lane, row.key, row.start))
        return answer

    # ------------------------------------------------------------ positions

    @initialize()
    def begin(self) -> None:
        self.create(10)
        self.register("x", None)

    @rule(next=OFFSETS)
    def create(self, next: int) -> None:
        self.both("create", self.group, self.stream, next, f"m{next - 1}")

    @rule(holder=HOLDERS)
    def hold(self, holder: str) -> None:
        self.both("hold", self.group, self.stream, holder)

    @rule(which=FENCES, holder=HOLDERS)
    def release(self, which: int, holder: str) -> None:
        self.fenced("release", which, holder)

    @rule(holder=HOLDERS)
    def renew(self, holder: str) -> None:
        answers = []
        for place, stand in enumerate(self.stands):
            mine = [pair[place] for pair in self.fences]
            found = driven(stand.store.renew(mine, holder))
            answers.append([fence in found for fence in mine])
        assert answers[0] == answers[1]

    @rule(
        which=FENCES,
        holder=HOLDERS,
        upto=OFFSETS,
        anchor=st.sampled_from(["", "known"]),
        begun=st.sampled_from([0, 16]),
        attempts=st.integers(0, 2),
        ids=IDS,
        rows=st.lists(ROWS, max_size=3),
        closed=st.lists(KEYS, max_size=2),
        marks=MARKS,
        query=st.integers(0, 2),
    )
    def commit(
        self,
        which: int,
        holder: str,
        upto: int,
        anchor: str,
        begun: int,
        attempts: int,
        ids: list[str],
        rows: list[WindowRow],
        closed: list[Any],
        marks: dict[str, float],
        query: int,
    ) -> None:
        chosen = self.queries[query % len(self.queries)] if query else None
        records = [self.record(id_) for id_ in ids]
        step = Step(upto, anchor, begun, attempts, records, ids, chosen, rows, closed, marks)
        self.fenced("commit", which, holder, step)

    # ------------------------------------------------------------ lanes

    @rule(which=FENCES, wanted=PLACES, token=TOKENS)
    def lease_lanes(self, which: int, wanted: dict[str, int], token: str) -> None:
        self.fenced("lease_lanes", which, wanted, token)

    @rule(which=FENCES, lanes=st.lists(LANES, max_size=3), token=TOKENS)
    def renew_lanes(self, which: int, lanes: list[str], token: str) -> None:
        self.fenced("renew_lanes", which, lanes, token)

    @rule(
        which=FENCES,
        token=TOKENS,
        moved=PLACES,
        freed=st.lists(LANES, max_size=2, unique=True),
        ids=IDS,
    )
    def settle_lanes(
        self, which: int, token: str, moved: dict[str, int], freed: list[str], ids: list[str]
    ) -> None:
        records = [self.record(id_) for id_ in ids]
        self.fenced("settle_lanes", which, token, moved, freed, records=records, seen=ids)

    @rule(which=FENCES, next=OFFSETS)
    def advance(self, which: int, next: int) -> None:
        self.fenced("advance", which, next, f"m{next - 1}")

    @rule(next=OFFSETS, lane=st.none() | LANES)
    def seek(self, next: int, lane: str | None) -> None:
        self.both("seek", self.group, self.stream, next, f"m{next - 1}", lane)

    @rule(what=st.sampled_from(["", "", "", "", "streams", "group"]))
    def delete(self, what: str) -> None:
        if what == "streams":
            self.both("delete_streams", [self.stream])
        elif what == "group":
            self.both("delete_group", self.group, [self.stream])

    # ------------------------------------------------------------ windows

    @rule(shape=st.sampled_from(["x", "y"]), reset=st.sampled_from([None, None, "all", "state"]))
    def register(self, shape: str, reset: str | None) -> None:
        found = self.both("register", self.query, shape, reset)
        if isinstance(found, Query):
            self.queries = [*self.queries, found][-3:]

    @rule(before=MOMENTS)
    def forget_lanes(self, before: float) -> None:
        self.both("forget_lanes", self.queries[-1], self.stream, before)

    @rule(upto=MOMENTS | st.dictionaries(LANES, MOMENTS))
    def ripe(self, upto: Any) -> None:
        self.both("ripe", self.queries[-1], self.stream, upto, 100)

    # ------------------------------------------------------------ time, and what is there

    @rule(seconds=st.sampled_from([LEASE - 1, LEASE + 1, LEASE + 1, 7 * 86400.0 + 1]))
    def pass_time(self, seconds: float) -> None:
        for stand in self.stands:
            stand.pass_time(seconds)

    @invariant()
    def all_is_the_same(self) -> None:
        self.both("position", self.group, self.stream)
        self.both("unseen", self.group, ["w1", "w2", "w3"])
        for query in self.queries:
            pairs = [(lane, key) for lane in "abc" for key in "kl"]
            self.both("windows", query, self.stream, pairs)
            self.both("watermarks", query, self.stream)
            self.both("open_windows", query)
        one, two = (stand.records(f"{self.group}-") for stand in self.stands)
        assert one == two

    def record(self, id_: str) -> OutboxRecord:
        return OutboxRecord(f"{self.group}-{id_}", "", "q", b"{}")


@pytest.fixture
def both_stands() -> Iterator[list[Stand]]:
    with sqlite_address() as address:
        stands = [Stand(None), Stand(address)]
        yield stands
        for stand in stands:
            stand.close()


def test_memory_and_sqlite_agree(both_stands: list[Stand]) -> None:
    TwoStores.stands = both_stands
    run_state_machine_as_test(
        TwoStores,
        settings=settings(
            max_examples=100, stateful_step_count=40, deadline=None, derandomize=True
        ),
    )
