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

#: the last one far more often than those of before
FENCES = st.sampled_from([-1, -1, -1, -1, -1, -2, -3])
HOLDERS = st.sampled_from(["one", "one", "two"])
TOKENS = st.sampled_from(["t", "t", "u"])
LANES = st.sampled_from(["a", "b"])
OFFSETS = st.integers(8, 16)
#: from where something stands: mostly there, or a little further
STEPS = st.sampled_from([0, 0, 0, 1, 2, 4, -1, -3])
IDS = st.lists(st.sampled_from(["w1", "w2", "w3"]), max_size=2)
SOME = st.lists(LANES, min_size=1, max_size=2, unique=True)

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
        self.fences: list[list[Fence]] = [[Fence(self.group, self.stream, 0)] * 2]
        self.last: Position | None = None

    def both(self, name: str, *values: Any) -> Any:
        """The answer of both."""
        return self._compared([values, values], name)

    def fenced(self, name: str, which: int, *values: Any, **named: Any) -> Any:
        """The same, under a fence of before."""
        pair = self.fences[max(which, -len(self.fences))]
        return self._compared([(fence, *values) for fence in pair], name, **named)

    def _compared(self, values: list[tuple[Any, ...]], name: str, **named: Any) -> Any:
        answers = []
        for stand, given in zip(self.stands, values, strict=True):
            try:
                answers.append(driven(getattr(stand.store, name)(*given, **named)))
            except ConfigurationError as refusal:
                answers.append(str(refusal))
        one, two = answers
        if isinstance(one, Position) and isinstance(two, Position):
            pair = [one.fence, two.fence]
            if pair not in self.fences:
                self.fences = [*self.fences, pair][-3:]
        assert self._told(one) == self._told(two)
        return one

    def _told(self, answer: Any) -> Any:
        """An answer without what may differ: epochs, and the order of what is equal."""
        if isinstance(answer, Position):
            return replace(answer, fence=Fence(self.group, self.stream, 0))
        if isinstance(answer, list) and answer and isinstance(answer[0], WindowRow):
            return sorted(answer, key=lambda row: (row.closes, row.lane, row.key, row.start))
        return answer

    def record(self, id_: str) -> OutboxRecord:
        return OutboxRecord(f"{self.group}-{id_}", "", "q", b"{}")

    # ------------------------------------------------------------ of both machines

    @rule(seconds=st.sampled_from([LEASE - 1, LEASE + 1, LEASE + 1, 7 * 86400.0 + 1]))
    def pass_time(self, seconds: float) -> None:
        for stand in self.stands:
            stand.pass_time(seconds)

    @rule(holder=HOLDERS)
    def hold(self, holder: str) -> None:
        self.both("hold", self.group, self.stream, holder)

    @rule(what=st.sampled_from(["", "", "", "", "", "", "streams", "group"]))
    def delete(self, what: str) -> None:
        if what == "streams":
            self.both("delete_streams", [self.stream])
        elif what == "group":
            self.both("delete_group", self.group, [self.stream])
        self.both("create", self.group, self.stream, 10, "m9")

    @invariant()
    def stands_there(self) -> None:
        self.last = self.both("position", self.group, self.stream)


class Places(TwoStores):
    """Positions, holds, lanes, output."""

    def at(self, lane: str, step: int) -> int:
        """An offset near where a lane stands."""
        assert self.last is not None
        rows = {row.lane: row.next for row in self.last.lanes}
        return rows.get(lane, self.last.next) + step

    @initialize()
    def begin(self) -> None:
        self.both("create", self.group, self.stream, 10, "m9")

    @rule(which=FENCES, holder=HOLDERS)
    def release(self, which: int, holder: str) -> None:
        self.fenced("release", which, holder)

    @rule()
    def let_go(self) -> None:
        if self.last is not None and self.last.holder:
            self.fenced("release", -1, self.last.holder)

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
        step=STEPS,
        anchor=st.sampled_from(["", "known"]),
        begun=st.sampled_from([0, 16]),
        attempts=st.integers(0, 2),
        ids=IDS,
    )
    def commit(
        self,
        which: int,
        holder: str,
        step: int,
        anchor: str,
        begun: int,
        attempts: int,
        ids: list[str],
    ) -> None:
        records = [self.record(id_) for id_ in ids]
        done = Step(self.at("", step), anchor, begun, attempts, records, ids)
        self.fenced("commit", which, holder, done)

    @rule(which=FENCES, lanes=SOME, step=STEPS, token=TOKENS)
    def lease_lanes(self, which: int, lanes: list[str], step: int, token: str) -> None:
        self.fenced("lease_lanes", which, {lane: self.at(lane, step) for lane in lanes}, token)

    @rule(which=FENCES, lanes=SOME, token=TOKENS)
    def renew_lanes(self, which: int, lanes: list[str], token: str) -> None:
        self.fenced("renew_lanes", which, lanes, token)

    @rule(which=FENCES, token=TOKENS, lanes=SOME, step=STEPS, freed=st.booleans(), ids=IDS)
    def settle_lanes(
        self, which: int, token: str, lanes: list[str], step: int, freed: bool, ids: list[str]
    ) -> None:
        moved = {lane: self.at(lane, step) for lane in lanes}
        records = [self.record(id_) for id_ in ids]
        gone = lanes if freed else []
        self.fenced("settle_lanes", which, token, moved, gone, records=records, seen=ids)

    @rule(token=TOKENS, lanes=SOME, step=STEPS, freed=st.booleans(), moved=st.booleans())
    def pop_and_ack(
        self, token: str, lanes: list[str], step: int, freed: bool, moved: bool
    ) -> None:
        """What members do most of the time."""
        self.let_go()
        leased = self.fenced("lease_lanes", -1, {lane: self.at(lane, 0) for lane in lanes}, token)
        onto = {each.lane: each.next + step for each in leased if moved}
        gone = [each.lane for each in leased if freed]
        self.fenced("settle_lanes", -1, token, onto, gone)

    @rule(which=FENCES, step=STEPS)
    def advance(self, which: int, step: int) -> None:
        self.fenced("advance", which, self.at("", step), f"step {step}")

    @rule(next=OFFSETS, lane=st.sampled_from(["", "", "a", "b", None]))
    def seek(self, next: int, lane: str | None) -> None:
        if lane != "":
            self.both("seek", self.group, self.stream, next, f"m{next - 1}", lane)

    @invariant()
    def has_put_out(self) -> None:
        self.both("unseen", self.group, ["w1", "w2", "w3"])
        one, two = (stand.records(f"{self.group}-") for stand in self.stands)
        assert one == two


class Windows(TwoStores):
    """Queries, windows, watermarks, by a holder that commits them."""

    @initialize()
    def begin(self) -> None:
        self.both("create", self.group, self.stream, 10, "m9")
        self.both("hold", self.group, self.stream, "one")
        self.queries: list[Query] = [self.both("register", self.query, "x", None)]

    @rule(
        which=FENCES,
        rows=st.lists(ROWS, max_size=3),
        closed=st.lists(KEYS, max_size=2),
        marks=MARKS,
        query=FENCES,
    )
    def commit(
        self,
        which: int,
        rows: list[WindowRow],
        closed: list[Any],
        marks: dict[str, float],
        query: int,
    ) -> None:
        chosen = self.queries[max(query, -len(self.queries))]
        step = Step(10, query=chosen, windows=rows, closed=closed, watermarks=marks)
        self.fenced("commit", which, "one", step)

    @rule(
        shape=st.sampled_from(["x", "x", "y"]),
        reset=st.sampled_from([None, None, None, "all", "state", "some"]),
    )
    def register(self, shape: str, reset: str | None) -> None:
        found = self.both("register", self.query, shape, reset)
        if isinstance(found, Query) and found.generation != self.queries[-1].generation:
            self.queries = [*self.queries, found][-3:]

    @rule(before=MOMENTS)
    def forget_lanes(self, before: float) -> None:
        self.both("forget_lanes", self.queries[-1], self.stream, before)

    @rule(upto=MOMENTS | st.dictionaries(LANES, MOMENTS))
    def ripe(self, upto: Any) -> None:
        self.both("ripe", self.queries[-1], self.stream, upto, 100)

    @invariant()
    def has_open(self) -> None:
        for query in self.queries[-2:]:
            pairs = [(lane, key) for lane in "ab" for key in "kl"]
            self.both("windows", query, self.stream, pairs)
            self.both("watermarks", query, self.stream)
            self.both("open_windows", query)


@pytest.fixture
def both_stands() -> Iterator[list[Stand]]:
    with sqlite_address() as address:
        stands = [Stand(None), Stand(address)]
        yield stands
        for stand in stands:
            stand.close()


@pytest.mark.parametrize("machine", [Places, Windows])
def test_memory_and_sqlite_agree(machine: type[TwoStores], both_stands: list[Stand]) -> None:
    TwoStores.stands = both_stands
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=70, stateful_step_count=40, derandomize=True),
    )
