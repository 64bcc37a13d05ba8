"""The shelf against a model: what is due is offered once, in order, and never passed over."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from acemq_amqp.eventlog.shelf import CAPACITY, TRAILING, Shelf, busy_lanes
from acemq_amqp.eventlog.store import LaneRow, Position
from tests.eventlog.groups.records import position, record

LANES = ("a", "b", "c")


class Model(RuleBasedStateMachine):
    """A stream that grows, lanes that are leased and moved, and a shelf that looks on."""

    def __init__(self) -> None:
        super().__init__()
        self.stream: list[tuple[str, bool]] = []  # lane, whether it is a mark
        self.next = 0
        self.rows: dict[str, tuple[int, bool]] = {}  # where it stands, whether it is leased
        self.shelf = Shelf(0, "")

    def stands(self, lane: str) -> int:
        return self.rows[lane][0] if lane in self.rows else self.next

    def due(self, lane: str, upto: int) -> list[int]:
        first = self.stands(lane)
        return [
            offset
            for offset, (of, mark) in enumerate(self.stream[:upto])
            if of == lane and not mark and offset >= first
        ]

    @property
    def position(self) -> Position:
        rows = (LaneRow(lane, at, 1, "t" * busy) for lane, (at, busy) in self.rows.items())
        return position(self.next, *rows)

    @rule(lanes=st.lists(st.sampled_from([*LANES, ""]), min_size=1, max_size=8))
    def pushed_and_read(self, lanes: list[str]) -> None:
        first = len(self.stream)
        self.stream += [(lane or "a", not lane) for lane in lanes]
        records = [
            record(first + number, lane or "a", "" if lane else "mark")
            for number, lane in enumerate(lanes)
        ]
        self.shelf.put(records, self.position)

    @rule(most=st.integers(1, 5), lanes=st.integers(1, 3), only=st.sampled_from([None, *LANES]))
    def popped(self, most: int, lanes: int, only: str | None) -> None:
        self.shelf.stand(self.position)
        offered = self.shelf.offer(most, lanes, self.position, only, 99)
        assert sum(map(len, offered.values())) <= most and len(offered) <= lanes
        wanted = LANES if only is None else (only,)
        free = [lane for lane in wanted if not self.rows.get(lane, (0, False))[1]]
        due = {lane: self.due(lane, len(self.stream)) for lane in free}
        due = {lane: offsets for lane, offsets in due.items() if offsets}
        assert bool(offered) == bool(due)
        for lane, records in offered.items():
            assert [each.offset for each in records] == due[lane][: len(records)]
            self.rows[lane] = self.stands(lane), True

    @precondition(lambda self: any(busy for _, busy in self.rows.values()))
    @rule(data=st.data(), count=st.integers(0, 3), freed=st.booleans())
    def acknowledged(self, data: st.DataObject, count: int, freed: bool) -> None:
        lane = data.draw(st.sampled_from([each for each in self.rows if self.rows[each][1]]))
        due = self.due(lane, len(self.stream))[:count]
        self.rows[lane] = due[-1] + 1 if due else self.stands(lane), not freed

    @rule()
    def advanced(self) -> None:
        self.shelf.stand(self.position)
        next, before = self.shelf.watermark()
        heads = [self.due(lane, self.shelf.upto)[:1] for lane in LANES]
        assert next == min([*sum(heads, []), self.shelf.upto])  # noqa: RUF017
        assert before == (f"m{next - 1}" if next else "")
        self.next = max(self.next, next)
        for lane, (at, busy) in list(self.rows.items()):
            if at <= self.next and not busy:
                del self.rows[lane]

    @invariant()
    def has_room_for_what_is_not_there(self) -> None:
        self.shelf.stand(self.position)
        due = sum(len(self.due(lane, len(self.stream))) for lane in LANES)
        assert self.shelf.room == CAPACITY - due


TestShelf = Model.TestCase
TestShelf.settings = settings(max_examples=60, stateful_step_count=25)


def test_a_busy_lane_with_more_than_its_share_is_dropped_when_it_is_full() -> None:
    shelf = Shelf(0, "")
    stuck = position(0, LaneRow("a", 0, 1, "t"))
    shelf.put([record(offset) for offset in range(CAPACITY - 1)], stuck)
    shelf.put([record(CAPACITY - 1, "b")], stuck)
    assert shelf.room == 0
    shelf.make_room(busy_lanes(position(0)))
    assert shelf.room == 0  # nobody has it: it is to be given out
    shelf.make_room(busy_lanes(stuck))
    assert shelf.room == CAPACITY - 1 and shelf.dropped() == {"a"}
    shelf.put([record(CAPACITY), record(CAPACITY + 1, "b")], stuck)
    offered = shelf.offer(9, 9, stuck, None, 99)
    assert [each.offset for each in offered["b"]] == [CAPACITY - 1, CAPACITY + 1]
    assert shelf.watermark() == (0, "")  # what was dropped is not done
    assert shelf.has("a")


def test_many_small_lanes_are_not_dropped() -> None:
    shelf = Shelf(0, "")
    rows = [LaneRow(f"l{n}", n, 1, "t") for n in range(40)]
    shelf.put([record(n, f"l{n % 40}") for n in range(CAPACITY)], position(0, *rows))
    shelf.make_room(busy_lanes(position(0, *rows)))
    assert shelf.room == 0 and not shelf.dropped()


def test_the_shelf_of_one_lane_keeps_no_other_and_passes_none() -> None:
    shelf = Shelf(0, "", only="a")
    shelf.put([record(n, "b" if n == 3 else "a") for n in range(6)], position(0))
    assert shelf.room == CAPACITY - 5 and not shelf.has("b")
    shelf.stand(position(0, LaneRow("a", 6)))
    assert shelf.watermark() == (3, "m2")
    shelf.stand(position(4))
    assert shelf.watermark()[0] == 3  # later ones of others are not known


def test_lanes_that_stay_behind_are_named() -> None:
    shelf = Shelf(0, "")
    shelf.put([record(n, "b") for n in range(20)], position(10))
    stands = position(10, LaneRow("a", 4), LaneRow("b", 12), LaneRow("c", 5, 1, "t"))
    shelf.stand(stands)
    assert shelf.trailing(stands) == {"a": 4}
    alone = Shelf(0, "", only="a")
    far = TRAILING + 50
    alone.put([record(n, "b") for n in range(far)], position(0))
    assert alone.trailing(position(0, LaneRow("a", 49))) == {"a": 49}
    assert alone.trailing(position(0, LaneRow("a", 60))) == {}


def test_open_lanes_are_bounded_but_for_the_one_that_all_wait_for() -> None:
    shelf = Shelf(0, "")
    shelf.put([record(n, f"l{n}") for n in range(9)], position(0))
    assert list(shelf.offer(9, 9, position(0), None, 2)) == ["l0", "l1"]
    stuck = position(0, LaneRow("l0", 0, 1, "t"), LaneRow("l1", 2))
    shelf.stand(stuck)
    assert shelf.offer(9, 9, stuck, None, 2) == {}
    freed = position(0, LaneRow("x", 5), LaneRow("y", 5))
    assert list(shelf.offer(9, 9, freed, None, 2)) == ["l0"]
