"""Queries, their windows, when they close, watermarks: on every store."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from acemq_amqp import ConfigurationError
from acemq_amqp.eventlog.store import Query
from tests.stores.log.stands import Group, window

# ------------------------------------------------------------ queries


def test_a_query_is_made_once_and_found_again(group: Group) -> None:
    assert group.registers("shape") == Query(group.query, 1, fresh=True)
    assert group.registers("shape") == Query(group.query, 1, fresh=False)


def test_another_shape_is_refused_unless_it_is_reset(group: Group) -> None:
    group.registers("shape")
    with pytest.raises(ConfigurationError, match=r"another shape.*reset='all'"):
        group.registers("other")
    assert group.registers("shape").generation == 1
    assert group.registers("other", "state") == Query(group.query, 2, fresh=True)
    assert group.registers("other") == Query(group.query, 2)
    with pytest.raises(ConfigurationError, match="another shape"):
        group.registers("shape")


def test_a_reset_that_there_is_not_is_refused(group: Group) -> None:
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="'all' or 'state', not 'some'"):
            group.registers("shape", "some")
    assert group.registers("shape") == Query(group.query, 1, fresh=True)


@pytest.mark.parametrize("reset", ["all", "state"])
def test_a_reset_drops_what_was_open_and_passes_who_is_at_it(
    group: Group, other: Group, reset: str
) -> None:
    group.create()
    other.create()
    kept = other.registers()
    assert other.commits(other.held(), 11, query=kept, windows=[window()])
    old = group.registers()
    fence = group.held()
    assert group.commits(fence, 11, query=old, windows=[window()], watermarks={"a": 5.0})
    new = group.registers("shape", reset)
    assert new == Query(group.query, 2, fresh=True)
    for query in (old, new):
        assert group.windows(query, ("a", "k")) == []
        assert group.ripe(query, 100.0) == []
        assert group.watermarks(query) == {}
        assert group.call(group.store.open_windows(query)) == 0
    output: dict[str, Any] = {"records": [group.record("r")], "windows": [window()]}
    assert not group.commits(fence, 12, query=old, **output)
    assert (group.position().next, group.out()) == (11, [])
    assert group.commits(fence, 12, query=new, **output)
    assert group.windows(new, ("a", "k")) == [window()]
    assert group.windows(old, ("a", "k")) == []
    assert other.windows(kept, ("a", "k")) == [window()]


# ------------------------------------------------------------ windows


def test_windows_are_those_of_the_pairs_asked_for(group: Group, other: Group) -> None:
    group.create()
    other.create()
    query = group.registers()
    rows = [window(lane, key, start) for lane in "ab" for key in "kl" for start in (0.0, 10.0)]
    assert group.commits(group.held(), 11, query=query, windows=rows)
    assert group.windows(query, ("a", "l"), ("b", "k"), ("a", "l"), ("c", "k")) == rows[2:6]
    assert group.windows(query) == []
    # of another query, and of another stream
    assert group.windows(other.registers(), ("a", "k")) == []
    assert group.call(group.store.windows(query, other.stream, [("a", "k")])) == []
    assert group.call(group.store.open_windows(query)) == 8


def test_a_window_is_written_over_and_the_last_of_a_step_counts(group: Group) -> None:
    group.create()
    query = group.registers()
    fence = group.held()
    first = window(state='{"n": 1}')
    assert group.commits(fence, 11, query=query, windows=[first, replace(first, state="2")])
    assert group.windows(query, ("a", "k")) == [replace(first, state="2")]
    changed = replace(first, end=99.0, closes=100.0, revision=3, state='{"n": 3}')
    assert group.commits(fence, 12, query=query, windows=[changed])
    assert group.windows(query, ("a", "k")) == [changed]


def test_windows_that_are_closed_go_before_others_are_written(group: Group) -> None:
    group.create()
    query = group.registers()
    fence = group.held()
    rows = [window(start=float(start)) for start in range(4)]
    assert group.commits(fence, 11, query=query, windows=rows)
    gone = [(row.lane, row.key, row.start) for row in rows[:3]]
    merged = replace(rows[0], end=50.0)
    assert group.commits(
        fence, 12, query=query, closed=[*gone, ("never", "k", 0.0)], windows=[merged]
    )
    assert group.windows(query, ("a", "k")) == [merged, rows[3]]
    assert group.call(group.store.open_windows(query)) == 2


@pytest.mark.parametrize(
    "moment", [0.1, 1700000000.123, 1700000000.123456, 1 / 3 + 1.7e9, -3.5, 2**33 + 0.5]
)
def test_moments_come_back_to_the_last_bit(group: Group, moment: float) -> None:
    group.create()
    query = group.registers()
    fence = group.held()
    row = replace(window(start=moment), end=moment * 3, closes=moment * 7)
    assert group.commits(fence, 11, query=query, windows=[row], watermarks={"a": moment})
    assert group.windows(query, ("a", "k")) == [row]
    assert group.ripe(query, moment * 7) == group.ripe(query, {"a": moment * 7}) == [row]
    assert group.watermarks(query) == {"a": moment}
    assert group.commits(fence, 12, query=query, closed=[("a", "k", moment)])
    assert group.windows(query, ("a", "k")) == []


# ------------------------------------------------------------ ripeness


def test_windows_ripen_by_a_moment_earliest_first(group: Group) -> None:
    group.create()
    query = group.registers()
    rows = [window("ab"[n % 2], f"k{n}", closes=float(20 - n)) for n in range(10)]
    never = window(key="never", closes=math.inf)
    assert group.commits(group.held(), 11, query=query, windows=[*rows, never])
    in_order = rows[::-1]
    assert group.ripe(query, 10.9) == []
    assert group.ripe(query, 13.0) == in_order[:3]
    assert group.ripe(query, 100.0, 4) == in_order[:4]
    assert group.ripe(query, 100.0) == group.ripe(query, math.inf) == in_order
    assert group.ripe(query, -math.inf) == []
    assert group.windows(query, ("a", "never")) == [never]


def test_each_lane_has_a_moment_of_its_own(group: Group) -> None:
    group.create()
    query = group.registers()
    rows = [window(lane, f"k{n}", closes=float(n)) for n in range(5) for lane in "abc"]
    assert group.commits(group.held(), 11, query=query, windows=rows)
    found = group.ripe(query, {"a": 1.0, "c": 2.0, "d": 9.0, "b": -math.inf})
    assert [row.closes for row in found] == [0.0, 0.0, 1.0, 1.0, 2.0]
    assert sorted((row.lane, row.key) for row in found) == [
        ("a", "k0"),
        ("a", "k1"),
        ("c", "k0"),
        ("c", "k1"),
        ("c", "k2"),
    ]
    assert len(group.ripe(query, {"a": math.inf, "b": 9.0}, 7)) == 7
    assert group.ripe(query, {}) == []


def test_a_window_that_moved_ripens_at_its_new_moment_only(group: Group) -> None:
    group.create()
    query = group.registers()
    fence = group.held()
    row = window(closes=10.0)
    for upto, closes in enumerate((10.0, 20.0, 10.0, 30.0), 11):
        moved = replace(row, closes=closes)
        assert group.commits(fence, upto, query=query, windows=[moved])
        assert group.ripe(query, 100.0) == [moved]
    assert group.ripe(query, 29.0) == []
    assert group.commits(fence, 20, query=query, closed=[("a", "k", 0.0)])
    assert group.ripe(query, 100.0) == []
    assert group.commits(fence, 21, query=query, windows=[replace(row, closes=math.inf)])
    assert group.commits(fence, 22, query=query, closed=[("a", "k", 0.0)])
    assert group.call(group.store.open_windows(query)) == 0


# ------------------------------------------------------------ watermarks


def test_watermarks_never_go_back(group: Group) -> None:
    group.create()
    query = group.registers()
    fence = group.held()
    assert group.watermarks(query) == {}
    assert group.commits(fence, 11, query=query, watermarks={"a": 5.0, "b": 6.0, "": 1.0})
    assert group.commits(fence, 12, query=query, watermarks={"a": 4.0, "b": 7.5})
    assert group.watermarks(query) == {"a": 5.0, "b": 7.5, "": 1.0}


def test_watermarks_are_forgotten_of_lanes_without_windows(group: Group) -> None:
    group.create()
    query = group.registers()
    fence = group.held()
    marks = {"open": 1.0, "idle": 1.0, "busy": 9.0, "": 0.5}
    assert group.commits(fence, 11, query=query, windows=[window("open")], watermarks=marks)
    forget = group.store.forget_lanes
    assert group.call(forget(query, group.stream, 1.0)) == 0
    assert group.call(forget(query, group.stream, 5.0)) == 1
    assert group.watermarks(query) == {"open": 1.0, "busy": 9.0, "": 0.5}
    assert group.commits(fence, 12, query=query, closed=[("open", "k", 0.0)])
    assert group.call(forget(query, group.stream, 5.0)) == 1
    assert set(group.watermarks(query)) == {"busy", ""}
