"""Where groups stand, holds, commits, seeks: every sentence of the protocol, on every store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from acemq_amqp import ConfigurationError
from acemq_amqp.eventlog.store import Fence, LogStore, Step
from acemq_amqp.patterns import OutboxStore
from tests.stores.log.stands import LEASE, Group, Stand, window

# ------------------------------------------------------------ being somewhere


def test_a_store_is_one_and_tells_its_lease_and_its_outbox(stand: Stand) -> None:
    assert isinstance(stand.store, LogStore)
    assert isinstance(stand.store.outbox, OutboxStore)
    assert stand.store.lease == LEASE


def test_a_group_is_nowhere_until_it_is_put_somewhere(group: Group) -> None:
    assert group.call(group.store.position(group.name, group.stream)) is None
    made = group.create(10, "m9")
    assert (made.next, made.anchor, made.unfinished, made.attempts) == (10, "m9", 0, 0)
    assert (made.holder, made.lanes) == ("", ())
    assert made.fence == Fence(group.name, group.stream, made.fence.epoch)
    assert group.position() == made


def test_a_group_that_stands_somewhere_stays_there(group: Group) -> None:
    made = group.create(10, "m9")
    assert group.create(20, "m19") == made


def test_positions_are_those_of_the_streams_asked_for_in_order(group: Group, other: Group) -> None:
    first, second = sorted((group.name, other.name))
    for name in (second, first):
        for stream in (group.stream, other.stream, f"{group.stream}.x"):
            group.call(group.store.create(name, stream, 1, ""))
    found = group.call(group.store.positions([other.stream, group.stream, "nowhere"]))
    streams = sorted((group.stream, other.stream))
    assert [(each.fence.group, each.fence.stream) for each in found] == [
        (name, stream) for name in (first, second) for stream in streams
    ]
    assert group.call(group.store.positions([])) == []


def test_positions_have_their_lanes(group: Group) -> None:
    group.create()
    group.leases({"b": 10, "a": 12})
    found = group.call(group.store.positions([group.stream]))
    assert found == [group.position()]
    assert [row.lane for row in found[0].lanes] == ["a", "b"]


# ------------------------------------------------------------ holding


def test_a_hold_raises_the_epoch_and_names_its_holder(group: Group) -> None:
    made = group.create()
    position = group.hold("one")
    assert position is not None
    assert position.fence.epoch > made.fence.epoch
    assert (position.holder, position.next, position.anchor) == ("one", 10, "m9")
    assert group.position() == position


def test_a_stream_where_the_group_is_not_cannot_be_held(group: Group) -> None:
    assert group.hold("one") is None


def test_one_holds_at_a_time_and_may_hold_again(group: Group) -> None:
    group.create()
    first = group.held("one")
    assert group.hold("two") is None
    again = group.held("one")
    assert again.epoch > first.epoch
    assert not group.commits(first, 11)
    assert group.commits(again, 11)


def test_a_hold_that_was_given_back_is_free_at_once(group: Group) -> None:
    group.create()
    fence = group.held("one")
    group.call(group.store.release(fence, "two"))
    assert group.hold("two") is None
    group.call(group.store.release(fence, "one"))
    assert group.position().holder == ""
    assert not group.commits(fence, 11)
    assert group.hold("two") is not None
    group.call(group.store.release(fence, "one"))
    assert group.position().holder == "two"


def test_a_hold_that_lapsed_is_nobodys_but_still_its_holders(group: Group) -> None:
    group.create()
    fence = group.held("one")
    group.stand.pass_time(LEASE + 1)
    assert group.position().holder == ""
    assert group.commits(fence, 11)
    assert group.position().holder == "one"
    assert group.hold("two") is None


def test_a_hold_that_lapsed_and_was_taken_writes_nothing(group: Group) -> None:
    group.create()
    fence = group.held("one")
    group.stand.pass_time(LEASE + 1)
    assert group.held("two")
    assert not group.commits(fence, 11, records=[group.record("r")])
    assert (group.position().next, group.out()) == (10, [])


@pytest.mark.parametrize("by", ["commit", "renew"])
def test_a_hold_is_begun_anew(group: Group, by: str) -> None:
    group.create()
    fence = group.held("one")
    group.stand.pass_time(LEASE - 1)
    if by == "commit":
        assert group.commits(fence, 10)
    else:
        assert group.call(group.store.renew([fence], "one")) == {fence}
    group.stand.pass_time(LEASE - 1)
    assert group.hold("two") is None


def test_renewing_tells_which_holds_are_still_ones_own(group: Group, other: Group) -> None:
    group.create()
    other.create()
    mine, passed = group.held("one"), other.held("one")
    lost = other.held("one")
    strange = Fence("nobody", group.stream, 1)
    fences = [mine, passed, strange]
    assert group.call(group.store.renew(fences, "one")) == {mine}
    assert group.call(group.store.renew([mine, lost], "two")) == set()
    group.stand.pass_time(LEASE + 1)
    assert group.call(group.store.renew([mine, mine], "one")) == {mine}
    assert group.position().holder == "one"
    assert group.call(group.store.renew([], "one")) == set()


def test_a_stream_with_a_leased_lane_is_not_held(group: Group) -> None:
    group.create()
    group.leases({"a": 10})
    assert group.hold("one") is None
    group.stand.pass_time(LEASE + 1)
    fence = group.position().fence
    group.held("one")
    # who had the lane has lost it by that
    assert group.settles({"a": 11}, fence=fence) == set()
    assert group.call(group.store.renew_lanes(fence, ["a"], "t")) == set()


@pytest.mark.parametrize("by", ["hold", "commit", "renew", "lanes"])
def test_a_view_of_the_store_leases_for_longer(group: Group, by: str) -> None:
    longer: LogStore = group.store.leasing(LEASE * 10)
    assert (longer.lease, group.store.lease) == (LEASE * 10, LEASE)
    fence = group.create().fence
    if by == "lanes":
        assert group.call(longer.lease_lanes(fence, {"a": 10}, "t"))
    elif by == "hold":
        assert group.call(longer.hold(group.name, group.stream, "one"))
    else:
        fence = group.held("one")
        if by == "commit":
            assert group.call(longer.commit(fence, "one", Step(11)))
        else:
            assert group.call(longer.renew([fence], "one")) == {fence}
    group.stand.pass_time(LEASE * 9)
    assert group.hold("two") is None
    group.stand.pass_time(LEASE * 2)
    assert group.hold("two") is not None


# ------------------------------------------------------------ committing


def test_a_commit_moves_and_notes_what_is_begun(group: Group) -> None:
    group.create()
    fence = group.held()
    assert group.commits(fence, 12, anchor="m11", begun=20, attempts=2)
    after = group.position()
    assert (after.next, after.anchor, after.unfinished, after.attempts) == (12, "m11", 20, 2)
    assert group.commits(fence, 20, anchor="m19")
    after = group.position()
    assert (after.next, after.anchor, after.unfinished, after.attempts) == (20, "m19", 0, 0)
    assert after.fence == fence


@pytest.mark.parametrize(
    ("upto", "anchor", "expected"),
    [
        (10, "", (10, "m9")),
        (10, "other", (10, "other")),
        (11, "", (11, "")),
        (5, "m4", (10, "m9")),
    ],
    ids=["there already", "there, and known", "further, unknown", "below"],
)
def test_the_watermark_never_goes_back_and_keeps_its_anchor(
    group: Group, upto: int, anchor: str, expected: Any
) -> None:
    group.create(10, "m9")
    assert group.commits(group.held(), upto, anchor=anchor)
    after = group.position()
    assert (after.next, after.anchor) == expected


def test_a_commit_takes_lanes_along(group: Group) -> None:
    group.create()
    group.leases({"at": 10, "near": 12, "far": 30})
    group.settles({}, ["at", "near", "far"])
    fence = group.held()
    assert group.commits(fence, 12)
    assert set(group.lanes()) == {"far"}
    assert group.commits(fence, 30)
    assert group.lanes() == {}


def test_a_lane_sought_back_is_read_again_before_the_watermark_moves(group: Group) -> None:
    group.create(10)
    group.seeks(3, lane="back")
    fence = group.held()
    assert group.commits(fence, 7)
    assert (group.position().next, group.lanes()) == (10, {"back": (7, 0, "")})
    assert group.commits(fence, 10)
    assert (group.position().next, group.lanes()) == (10, {})


@pytest.mark.parametrize("whose", ["another's fence", "another holder", "no such group", "sought"])
def test_a_commit_without_the_right_to_it_writes_nothing(
    group: Group, other: Group, whose: str
) -> None:
    group.create()
    query = group.registers()
    fence, holder = group.held(), "one"
    if whose == "another's fence":
        fence = Fence(fence.group, fence.stream, fence.epoch - 1)
    elif whose == "another holder":
        holder = "two"
    elif whose == "no such group":
        fence = Fence(other.name, other.stream, fence.epoch)
    else:
        group.seeks(10, "m9")
    before = group.position()
    called: list[Any] = []
    assert not group.commits(
        fence,
        20,
        holder,
        records=[group.record("r")],
        seen=["w"],
        query=query,
        windows=[window()],
        watermarks={"a": 1.0},
        work=called.append,
    )
    assert (group.position(), group.out(), called) == (before, [], [])
    assert group.unseen("w") == {"w"}
    assert group.windows(query, ("a", "k")) == []
    assert group.watermarks(query) == {}


def test_output_is_there_with_the_cursor_and_one_id_is_one_record(group: Group) -> None:
    group.create()
    fence = group.held()
    many = [group.record(f"r{number:03}") for number in range(120)]
    assert group.commits(fence, 11, records=[*many, many[0]])
    assert group.out() == [f"r{number:03}" for number in range(120)]
    assert group.commits(fence, 12, records=many[:1])
    assert len(group.out()) == 120


@pytest.mark.parametrize(
    "stand", ["sqlite", pytest.param("postgresql", marks=pytest.mark.server)], indirect=True
)
def test_a_step_with_a_strange_record_writes_nothing(group: Group) -> None:
    group.create()
    fence = group.held()
    with pytest.raises(ConfigurationError, match="no outbox record"):
        group.commits(fence, 11, records=[object()])
    assert group.position().next == 10


def test_the_users_work_is_called_once_before_and_what_it_raises_undoes_all(group: Group) -> None:
    group.create()
    fence = group.held()
    called = []

    def work(connection: Any) -> None:
        called.append(connection)
        raise LookupError("not that")

    with pytest.raises(LookupError, match="not that") as raised:
        group.commits(fence, 11, records=[group.record("r")], seen=["w"], work=work)
    assert raised.type is LookupError
    assert (group.position().next, group.out(), group.unseen("w")) == (10, [], {"w"})
    assert group.commits(fence, 11, work=called.append)
    assert len(called) == 2


# ------------------------------------------------------------ seeking, deleting


def test_a_seek_moves_all_and_ends_everything(group: Group) -> None:
    group.create()
    group.leases({"a": 10})
    group.settles({"a": 11}, ["a"], seen=["w"])
    fence = group.held()
    assert group.commits(fence, 10, begun=15, attempts=3)
    after = group.seeks(5, "m4")
    assert after is not None and after == group.position()
    assert after.fence.epoch > fence.epoch
    assert (after.next, after.anchor, after.unfinished, after.attempts) == (5, "m4", 0, 0)
    assert (after.holder, after.lanes) == ("", ())
    assert not group.commits(fence, 20)
    assert group.unseen("w") == {"w"}


def test_a_seek_of_one_lane_leaves_the_others_where_they_are(group: Group, other: Group) -> None:
    other.create()
    assert other.commits(other.held(), 10, seen=["w"])
    made = group.create(10, "m9")
    group.leases({"a": 10, "b": 10})
    group.settles({"b": 15}, [], seen=["w"])
    after = group.seeks(3, "not used", lane="a")
    assert after is not None and after.fence.epoch > made.fence.epoch
    assert (after.next, after.anchor) == (10, "m9")
    assert group.lanes() == {"a": (3, 0, ""), "b": (15, 0, "")}
    # what was leased before writes nothing any more
    assert group.settles({"b": 16}, fence=made.fence) == set()
    assert group.unseen("w") == {"w"}
    assert other.unseen("w") == set()


def test_there_is_nothing_to_seek_where_no_group_is(group: Group) -> None:
    assert group.seeks(1) is None
    assert group.seeks(1, lane="a") is None


def test_a_group_that_was_deleted_is_forgotten_in_those_streams(group: Group) -> None:
    group.create()
    group.call(group.store.create(group.name, "elsewhere", 1, ""))
    group.leases({"a": 10})
    fence = group.position().fence
    group.settles({"a": 11}, seen=["w"])
    streams = [group.stream, "never was"]
    assert group.call(group.store.delete_group(group.name, streams)) == 1
    assert group.call(group.store.delete_group(group.name, streams)) == 0
    assert group.call(group.store.position(group.name, group.stream)) is None
    assert group.call(group.store.position(group.name, "elsewhere")) is not None
    # made again, it begins anew, and no fence of before is worth anything
    made = group.create(1, "")
    assert made.fence.epoch > fence.epoch
    assert (made.lanes, group.unseen("w")) == ((), {"w"})


def test_streams_that_were_deleted_are_forgotten_by_all(group: Group, other: Group) -> None:
    group.create()
    other.create()
    group.call(group.store.create(other.name, group.stream, 1, ""))
    query, theirs = group.registers(), other.registers()
    output: dict[str, Any] = {"windows": [window()], "watermarks": {"a": 1.0}, "seen": ["w"]}
    assert group.commits(group.held(), 11, query=query, **output)
    assert other.commits(other.held(), 11, query=theirs, **output)
    assert group.call(group.store.delete_streams([group.stream])) is None
    assert group.call(group.store.positions([group.stream])) == []
    assert (group.windows(query, ("a", "k")), group.watermarks(query)) == ([], {})
    assert group.unseen("w") == {"w"}
    assert other.position().next == 11
    assert other.windows(theirs, ("a", "k")) == [window()]
    assert other.unseen("w") == set()
    # what is made of the streams that come after them has other ids
    assert group.registers().generation == query.generation + 1
    assert other.registers() == replace(theirs, fresh=False)


@pytest.mark.parametrize("kept", [{"windows": [window()]}, {"watermarks": {"": 1.0}}], ids=str)
def test_a_query_that_kept_anything_of_deleted_streams_begins_a_generation(
    group: Group, kept: dict[str, Any]
) -> None:
    group.create()
    query = group.registers()
    assert group.commits(group.held(), 11, query=query, **kept)
    for _ in range(2):  # once, not with every delete
        group.call(group.store.delete_streams([group.stream]))
        assert group.registers().generation == query.generation + 1
    group.create()
    assert not group.commits(group.held(), 12, query=query)


# ------------------------------------------------------------ what was seen


def test_ids_are_seen_for_seven_days_by_that_group(group: Group, other: Group) -> None:
    group.create()
    fence = group.held()
    assert group.unseen("w", "v") == {"w", "v"}
    assert group.commits(fence, 11, seen=["w", "w"])
    assert group.unseen("w", "v", "w") == {"v"}
    assert other.unseen("w") == {"w"}
    assert group.unseen() == set()
    group.stand.pass_time(6 * 86400)
    assert group.unseen("w") == set()
    group.stand.pass_time(86401)
    assert group.unseen("w") == {"w"}
    assert group.commits(fence, 12, seen=["w"])
    assert group.unseen("w") == set()


@pytest.mark.parametrize(
    "odd", ["\0", "a\0b", "\ud800", "\x1a", "\x1a0000", "Größe 🐇", '"\\u0000']
)
def test_texts_that_no_database_keeps_come_back_as_they_were(group: Group, odd: str) -> None:
    group.create(10, odd)
    assert group.position().anchor == odd
    assert [lease.lane for lease in group.leases({odd: 10})] == [odd]
    assert group.call(group.store.renew_lanes(group.position().fence, [odd], "t")) == {odd}
    assert group.settles({odd: 11}, [odd], seen=[odd]) == {odd}
    assert list(group.lanes()) == [odd]
    assert group.unseen(odd, "else") == {"else"}
    query = group.registers()
    row = window(odd, odd, state=f'"{odd}"')
    assert group.commits(group.held(), 12, query=query, windows=[row], watermarks={odd: 1.5})
    assert group.windows(query, (odd, odd)) == group.ripe(query, {odd: 10.0}) == [row]
    assert group.watermarks(query) == {odd: 1.5}
