"""Leases of lanes, settling, and the watermark over them: on every store."""

from __future__ import annotations

from typing import Any

import pytest

from acemq_amqp.eventlog.store import Fence, LaneLease
from tests.stores.log.stands import LEASE, Group

# ------------------------------------------------------------ leasing


def test_free_lanes_are_leased_in_the_order_asked_for_and_count_an_attempt(group: Group) -> None:
    group.create()
    assert group.leases({"b": 12, "a": 10}) == [LaneLease("b", 12, 1), LaneLease("a", 10, 1)]
    assert group.lanes() == {"a": (10, 1, "t"), "b": (12, 1, "t")}
    assert group.leases({}) == []


@pytest.mark.parametrize(
    ("stands", "asked", "leased"),
    [
        (None, 9, False),
        (None, 10, True),
        (None, 25, True),
        (15, 14, False),
        (15, 15, True),
        (15, 16, False),
        (3, 3, True),
        (3, 10, False),
    ],
)
def test_a_lane_is_leased_where_it_stands(
    group: Group, stands: int | None, asked: int, leased: bool
) -> None:
    group.create(10)
    if stands is not None:
        group.seeks(stands, lane="a")
    assert bool(group.leases({"a": asked})) is leased
    assert ("a" in group.lanes()) is (leased or stands is not None)


def test_a_leased_lane_is_not_leased_again_until_it_is_free_or_has_lapsed(group: Group) -> None:
    group.create()
    group.leases({"a": 10}, "t")
    assert group.leases({"a": 10, "b": 10}, "u") == [LaneLease("b", 10, 1)]
    assert group.leases({"a": 10}, "t") == []
    group.settles({}, ["a"], "t")
    assert group.leases({"a": 10}, "u") == [LaneLease("a", 10, 2)]
    group.stand.pass_time(LEASE + 1)
    assert group.lanes()["a"] == (10, 2, "")
    assert group.leases({"a": 10}, "v") == [LaneLease("a", 10, 3)]
    assert group.settles({"a": 11}, ["a"], "u") == set()


def test_nothing_is_leased_while_the_stream_is_held(group: Group) -> None:
    group.create()
    fence = group.held()
    assert group.leases({"a": 10}) == []
    group.call(group.store.release(fence, "one"))
    assert len(group.leases({"a": 10})) == 1


def test_a_hold_that_lapsed_ends_where_a_lane_is_leased(group: Group) -> None:
    group.create()
    fence = group.held()
    group.stand.pass_time(LEASE + 1)
    assert len(group.leases({"a": 10})) == 1
    assert not group.commits(fence, 20)
    assert group.call(group.store.renew([fence], "one")) == set()


@pytest.mark.parametrize("how", ["sought", "held", "never there"])
def test_a_fence_that_was_passed_does_nothing(group: Group, other: Group, how: str) -> None:
    made = group.create()
    group.leases({"a": 10})
    fence = made.fence
    if how == "sought":
        group.seeks(10, "m9")
    elif how == "held":
        group.settles({}, ["a"])
        group.held()
    else:
        fence = Fence(other.name, other.stream, 1)
    before = group.position()
    assert group.leases({"b": 10}, fence=fence) == []
    assert group.call(group.store.renew_lanes(fence, ["a"], "t")) == set()
    output: dict[str, Any] = {"records": [group.record("r")], "seen": ["w"]}
    assert group.settles({"a": 11}, ["a"], fence=fence, **output) == set()
    assert not group.advances(12, fence=fence)
    assert (group.position(), group.out(), group.unseen("w")) == (before, [], {"w"})


# ------------------------------------------------------------ renewing, settling


def test_leases_are_begun_anew_while_they_are_their_tokens(group: Group) -> None:
    fence = group.create().fence
    group.leases({"a": 10, "b": 10}, "t")
    group.leases({"c": 10}, "u")
    group.settles({}, ["b"], "t")
    group.stand.pass_time(LEASE - 1)
    names = ["a", "b", "c", "never"]
    assert group.call(group.store.renew_lanes(fence, names, "t")) == {"a"}
    group.stand.pass_time(LEASE - 1)
    assert group.lanes() == {"a": (10, 1, "t"), "b": (10, 1, ""), "c": (10, 1, "")}
    # one that lapsed, and that nobody took, is still its token's
    assert group.call(group.store.renew_lanes(fence, ["c", "c"], "u")) == {"c"}
    assert group.lanes()["c"] == (10, 1, "u")
    assert group.call(group.store.renew_lanes(fence, [], "t")) == set()


def test_a_lane_moves_forward_and_what_is_next_was_given_once(group: Group) -> None:
    group.create()
    group.leases({"a": 10})
    group.settles({}, ["a"])
    group.leases({"a": 10})
    assert group.settles({"a": 9}) == {"a"}
    assert group.lanes()["a"] == (10, 2, "t")
    assert group.settles({"a": 14}) == {"a"}
    assert group.lanes()["a"] == (14, 1, "t")
    assert group.settles({"a": 12}) == {"a"}
    assert group.lanes()["a"] == (14, 1, "t")


def test_a_lane_is_freed_with_or_without_being_moved(group: Group) -> None:
    group.create()
    group.leases({"a": 10, "b": 10})
    assert group.settles({"a": 11}, ["a", "b"]) == {"a", "b"}
    assert group.lanes() == {"a": (11, 0, ""), "b": (10, 1, "")}
    assert group.settles({"a": 12}) == set()


def test_output_is_written_with_the_move(group: Group) -> None:
    group.create()
    group.leases({"a": 10})
    assert group.settles({"a": 11}, records=[group.record("r")], seen=["w"]) == {"a"}
    assert (group.out(), group.unseen("w", "v")) == (["r"], {"v"})


def test_where_one_lane_was_lost_nothing_is_written_and_the_others_are_told(group: Group) -> None:
    group.create()
    group.leases({"a": 10, "b": 10}, "t")
    group.settles({}, ["b"], "t")
    group.leases({"b": 10}, "u")
    output: dict[str, Any] = {"records": [group.record("r")], "seen": ["w"]}
    assert group.settles({"a": 11, "b": 11}, ["a"], "t", **output) == {"a"}
    assert group.lanes() == {"a": (10, 1, "t"), "b": (10, 2, "u")}
    assert (group.out(), group.unseen("w")) == ([], {"w"})
    assert group.settles({"a": 11}, ["a", "never"], "t", **output) == {"a"}
    assert group.out() == []


# ------------------------------------------------------------ the watermark


def test_the_watermark_moves_forward_only(group: Group) -> None:
    group.create(10, "m9")
    assert group.advances(12, "m11")
    assert group.advances(11, "m10")
    assert group.advances(12, "other")
    after = group.position()
    assert (after.next, after.anchor) == (12, "m11")


def test_a_held_stream_is_not_advanced_and_a_hold_that_lapsed_ends(group: Group) -> None:
    group.create()
    fence = group.held()
    assert not group.advances(12)
    group.stand.pass_time(LEASE + 1)
    assert group.advances(12)
    assert not group.commits(fence, 20)
    assert group.position().next == 12


def test_what_a_holder_counted_is_not_counted_of_another_message(group: Group) -> None:
    group.create()
    fence = group.held()
    assert group.commits(fence, 10, begun=15, attempts=3)
    group.call(group.store.release(fence, "one"))
    assert group.advances(10)
    assert group.position().attempts == 3
    assert group.advances(11)
    assert group.position().attempts == 0


@pytest.mark.parametrize(
    ("lane", "after"),
    [
        ((10, "freed", "settled"), None),
        ((12, "freed", "settled"), None),
        ((15, "freed", "settled"), None),
        ((16, "freed", "settled"), (16, 0, "")),
        ((5, "freed", "settled"), (5, 0, "")),
        ((12, "leased", "settled"), (12, 1, "t")),
        ((12, "freed", "begun"), (15, 1, "")),
        ((15, "freed", "begun"), (15, 1, "")),
        ((5, "freed", "begun"), (5, 1, "")),
        ((12, "leased", "begun"), (12, 1, "t")),
    ],
    ids=str,
)
def test_rows_of_free_lanes_go_when_the_watermark_reaches_them(
    group: Group, lane: tuple[int, str, str], after: tuple[int, int, str] | None
) -> None:
    next_, state, how = lane
    group.create(10)
    begins = next_ if how == "begun" else next_ - 1
    group.seeks(begins, lane="a")
    group.leases({"a": begins})
    group.settles({"a": next_} if how == "settled" else {}, ["a"] if state == "freed" else [])
    assert group.advances(15)
    assert group.lanes().get("a") == after


def test_a_lapsed_lease_does_not_keep_a_row_in_its_place(group: Group) -> None:
    group.create(10)
    group.leases({"a": 10})
    group.settles({"a": 12})
    group.stand.pass_time(LEASE + 1)
    assert group.advances(14)
    assert group.lanes() == {"a": (14, 1, "")}
