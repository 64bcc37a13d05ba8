"""When windows close, and what becomes of what comes after."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog.windows import (
    EventTime,
    ProcessingTime,
    Progress,
    Session,
    Sliding,
    Tumbling,
    due,
    forgettable,
)
from tests.eventlog.windows.cycles import Cycles, amount, event

BY_EVENT = EventTime(amount, "wait")


def test_a_window_closes_when_any_lane_was_read_past_its_end_and_the_grace() -> None:
    cycles = Cycles(Tumbling(2), ProcessingTime(1))

    cycles.fold(event(1, lane="quiet"), event(2.9, lane="busy"))
    assert cycles.results == []

    cycles.fold(event(3, lane="busy"))
    ((lane, start, end),) = [(each.lane, each.start, each.end) for each in cycles.results]
    assert (lane, start, end) == ("quiet", 0, 2)


def test_a_quiet_window_closes_by_the_clock_after_a_restart_too() -> None:
    cycles = Cycles(Tumbling(3600))
    cycles.fold(event(10, 5))

    cycles.flush(3600.9)
    assert cycles.results == []
    cycles.flush(3601)

    assert [each.data["sum"] for each in cycles.results] == [5]


def test_what_was_published_before_a_closed_window_counts_in_the_open_one() -> None:
    cycles = Cycles(Tumbling(2), ProcessingTime(1))
    cycles.fold(event(1, 5))
    cycles.flush(3)

    cycles.fold(event(1.5, 7))
    cycles.finish()

    assert [(each.start, each.data["sum"]) for each in cycles.results] == [(0, 5), (2, 7)]
    assert cycles.counts == {"moved": 1}


def test_in_event_time_a_lane_closes_by_its_own_watermark() -> None:
    cycles = Cycles(Tumbling(2), replace(BY_EVENT, out_of_order=1))

    cycles.fold(event(1, lane="a"), event(1, lane="b"), event(2.9, lane="b"))
    assert cycles.results == []
    cycles.fold(event(3, lane="b"))

    assert [(each.lane, each.start) for each in cycles.results] == [("b", 0)]


@pytest.mark.parametrize(("late", "side"), [("drop", []), ("side", [1.5])])
def test_a_late_event_is_dropped_or_put_aside_and_counted(late: Any, side: list[float]) -> None:
    cycles = Cycles(Tumbling(2), replace(BY_EVENT, late=late))

    cycles.fold(event(1, 5), event(2, 1), event(1.5, 7))
    cycles.finish()

    assert [each.data["sum"] for each in cycles.results] == [5, 1]
    assert [each.time for each in cycles.side] == side
    assert cycles.counts == {"dropped" if late == "drop" else "side": 1}


def test_an_included_event_gives_a_new_revision_until_the_window_expires() -> None:
    cycles = Cycles(Tumbling(2), replace(BY_EVENT, late="include", allowed_lateness=4))

    cycles.fold(event(1, 5), event(2, 1))
    cycles.fold(event(1.5, 7), event(0.5, 3))
    cycles.fold(event(6, 1), event(1.5, 9))

    first = [each for each in cycles.results if each.start == 0]
    assert [(each.revision, each.data["sum"]) for each in first] == [(0, 5), (1, 12), (2, 15)]
    assert [each.replaces for each in first] == [(), (first[0].id,), (first[1].id,)]
    assert cycles.counts == {"included": 2, "dropped": 1}
    assert [row.start for row in cycles.rows.values()] == [2, 6]


def test_a_message_that_cannot_be_counted_corrects_and_tells_nothing() -> None:
    cycles = Cycles(Tumbling(2), replace(BY_EVENT, late="include", allowed_lateness=4))

    cycles.fold(event(1, 5), event(3, 1), event(1.5, 7, at=9), event(3, "?", at=9))

    assert [each.offset for each in cycles.failed] == [9]
    assert [(each.revision, each.data["sum"]) for each in cycles.results] == [(0, 5)]
    assert not cycles.counts


def test_what_was_folded_counts_where_its_window_is_ripe_in_the_same_cycle() -> None:
    cycles = Cycles(Tumbling(2))
    cycles.fold(event(1, 5))

    cycles.fold(event(1.5, 7), event(3, 1))

    assert [each.data["sum"] for each in cycles.results] == [12]


def test_a_session_that_became_part_of_another_is_not_told_where_it_is_ripe() -> None:
    cycles = Cycles(Session(2), replace(BY_EVENT, out_of_order=2))
    cycles.fold(event(2, 2))

    cycles.fold(event(1, 1), event(20, 4))

    assert [(each.start, each.data["sum"]) for each in cycles.results] == [(1, 3)]


def test_a_session_that_has_closed_is_not_prolonged_in_the_cycle_that_closes_it() -> None:
    cycles = Cycles(Session(2), BY_EVENT)

    cycles.fold(event(0, 1), event(3, 2), event(1.5, 4))
    cycles.finish()

    ends = [(each.start, each.end, each.data["sum"]) for each in cycles.results]
    assert ends == [(0, 2, 1), (1.5, 5, 6)]


def test_a_late_event_that_joins_sessions_stands_for_their_results() -> None:
    timing = replace(BY_EVENT, late="include", allowed_lateness=100)
    cycles = Cycles(Session(2), timing)
    cycles.fold(event(1, 1), event(4, 2), event(20, 4))
    one, two = cycles.results

    cycles.fold(event(2.5, 8))

    joined = cycles.results[-1]
    assert (joined.start, joined.end, joined.revision) == (1, 6, 1)
    assert joined.data["sum"] == 11
    assert joined.replaces == (one.id, two.id)
    assert cycles.finish().total() == 15


def test_an_event_too_late_for_some_of_its_windows_counts_in_the_others() -> None:
    cycles = Cycles(Sliding(4, 2), BY_EVENT)

    cycles.fold(event(1, 1), event(2, 1), event(1, 1))
    cycles.finish()

    counts = [(each.start, each.data["count"]) for each in cycles.results]
    assert counts == [(-2, 1), (0, 3), (2, 1)]
    assert cycles.counts == {"partly": 1}


def test_an_idle_lane_waits_for_its_own_events_or_follows_the_others() -> None:
    waits, follows = (Cycles(Tumbling(2), EventTime(amount, idle)) for idle in ("wait", 5))

    for cycles in (waits, follows):
        cycles.fold(event(1, lane="idle"), event(6.9, lane="busy"))
        assert cycles.results == []
        cycles.fold(event(7, lane="busy"))

    assert [each.lane for each in waits.results] == []
    assert [each.lane for each in follows.results] == ["idle"]


def test_where_all_lanes_are_quiet_event_time_goes_on_by_what_the_clock_has_passed() -> None:
    cycles = Cycles(Tumbling(2), EventTime(amount, idle_lanes=5))
    cycles.fold(event(1))

    cycles.flush(1_700_000_005.9, read=1_700_000_000)
    assert cycles.results == []
    cycles.flush(1_700_000_006, read=1_700_000_000)

    assert [each.start for each in cycles.results] == [0]


def test_only_what_moved_is_asked_for() -> None:
    progress = Progress.of({"": 4.0, "a": 9.0, "b": 3.0})

    assert due(progress, ProcessingTime()) == [(None, 4), ("a", 9)]
    assert due(progress, BY_EVENT) == [("a", 9), ("b", 3)]
    assert due(progress, replace(BY_EVENT, idle_lanes=5)) == [(None, 4), ("a", 9)]
    assert due(progress.committed(), BY_EVENT) == []
    assert progress.watermarks() == {"": 4, "a": 9, "b": 3}
    assert Progress().watermarks() == {}


def test_a_lane_is_forgotten_once_the_floor_stands_for_it() -> None:
    timing = replace(BY_EVENT, out_of_order=10.0, idle_lane_ttl=10.0)
    cycles = Cycles(Tumbling(2), timing)
    cycles.fold(event(1, lane="old"), event(14, lane="old"), event(100, lane="new"))

    assert forgettable(Progress.of(cycles.watermarks), timing) == 80
    assert forgettable(Progress.of(cycles.watermarks), ProcessingTime()) == -math.inf
    del cycles.watermarks["old"]
    cycles.fold(event(3, lane="old"), event(85, lane="old"), event(77, lane="old"))

    assert cycles.counts == {"dropped": 2}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"late": "keep"}, "give 'drop', 'side' or 'include'"),
        ({"late": "include"}, "allowed_lateness above 0"),
        ({"allowed_lateness": 5}, "allowed_lateness above 0"),
        ({"out_of_order": -1}, "out_of_order of a window is negative"),
        ({"idle_lanes": "skip"}, "give 'wait', or a duration"),
        ({"of": 5}, "event_time wants a function"),
    ],
)
def test_a_timing_that_cannot_be_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        replace(BY_EVENT, **options)
