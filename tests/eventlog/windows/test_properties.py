"""What holds for any events: batches, restarts, order and closing lose nothing and add nothing."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from operator import attrgetter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from acemq_amqp.eventlog.windows import (
    Event,
    EventTime,
    Kind,
    ProcessingTime,
    Session,
    Sliding,
    Timing,
    Tumbling,
    WindowResult,
)
from tests.eventlog.windows.cycles import Cycles, numbered, totals

many = settings(max_examples=60)

amounts = st.one_of(
    st.integers(-(10**20), 10**20),
    st.floats(-1e9, 1e9, allow_nan=False),
    st.sampled_from([0.1, 0.2, 0.3, 1e299, -1e299, 5e-324]),
)
times = st.integers(0, 60).map(lambda half: half / 2)
kinds = st.sampled_from([Tumbling(4), Sliding(6, 2), Sliding(5, 2), Session(2)])


@st.composite
def events(draw: st.DrawFn, *, lanes: str = "ab", least: int = 0) -> list[Event]:
    made = st.builds(
        lambda lane, key, time, amount: Event(lane, key, time, {"amount": amount}, 0),
        *(st.sampled_from(lanes), st.sampled_from("xy"), times, amounts.filter(bool)),
    )
    return numbered(draw(st.lists(made, min_size=least, max_size=25)))


@st.composite
def timings(draw: st.DrawFn) -> Timing:
    if draw(st.booleans()):
        return ProcessingTime(draw(st.sampled_from([0, 1, 3])))
    late = draw(st.sampled_from(["drop", "side", "include"]))
    return EventTime(
        lambda _: 0,
        idle_lanes=draw(st.sampled_from(["wait", 0, 5])),
        out_of_order=draw(st.sampled_from([0, 2])),
        late=late,  # type: ignore[arg-type]
        allowed_lateness=draw(st.sampled_from([1, 6])) if late == "include" else 0,
    )


@st.composite
def batches(draw: st.DrawFn, whole: list[Event]) -> list[list[Event]]:
    cuts = sorted(draw(st.sets(st.integers(0, len(whole)))))
    edges = [0, *cuts, len(whole)]
    return [whole[one:other] for one, other in pairwise(edges)]


@many
@given(kinds, timings(), events(), st.data())
def test_batches_and_restarts_change_nothing(
    kind: Kind, timing: Timing, whole: list[Event], data: st.DataObject
) -> None:
    at_once = Cycles(kind, timing).fold_in([whole])
    in_parts = Cycles(kind, timing).fold_in(data.draw(batches(whole)))

    assert _seen(at_once) == _seen(in_parts)
    assert _results(at_once.finish()) == _results(in_parts.finish())


def _results(cycles: Cycles) -> list[WindowResult]:
    return sorted(cycles.results, key=attrgetter("id"))


def _seen(cycles: Cycles) -> Any:
    """All that a user, or the next runner, can see; a sum's parts may be others."""
    rows = sorted((*at, row.end, row.closes, row.revision) for at, row in cycles.rows.items())
    return _results(cycles), rows, cycles.watermarks, cycles.counts, cycles.side


@many
@given(kinds, timings(), events())
def test_no_two_results_have_the_same_id(kind: Kind, timing: Timing, whole: list[Event]) -> None:
    cycles = Cycles(kind, timing).fold_in([each] for each in whole).finish()

    assert len({each.id for each in cycles.results}) == len(cycles.results)


@many
@given(st.sampled_from([Tumbling(4), Session(2)]), timings(), events())
def test_every_event_counts_once_or_is_counted_as_late(
    kind: Kind, timing: Timing, whole: list[Event]
) -> None:
    cycles = Cycles(kind, timing).fold_in([each] for each in whole).finish()

    late = cycles.counts["dropped"] + cycles.counts["side"]
    assert cycles.total(lambda each: each.data["count"]) == len(whole) - late
    assert len(cycles.side) == cycles.counts["side"]


@many
@given(st.sampled_from([Tumbling(4), Session(2)]), events(), st.integers(0, 3))
def test_by_publish_time_no_event_is_lost_however_far_times_go_back(
    kind: Kind, whole: list[Event], grace: int
) -> None:
    cycles = Cycles(kind, ProcessingTime(grace)).fold_in([each] for each in whole).finish()

    assert cycles.total(lambda each: each.data["count"]) == len(whole)


@many
@given(kinds, events(), st.data())
def test_live_reading_gives_the_windows_of_a_backlog(
    kind: Kind, whole: list[Event], data: st.DataObject
) -> None:
    grace = 2.0
    delays = data.draw(st.lists(st.floats(0, grace), min_size=len(whole), max_size=len(whole)))
    arriving = sorted(
        zip(whole, delays, strict=True), key=lambda pair: (pair[0].time + pair[1], pair[0].offset)
    )
    backlog = numbered(each for each, _ in arriving)
    live = Cycles(kind, ProcessingTime(grace))
    for each, (_, delay) in zip(backlog, arriving, strict=True):
        live.flush(each.time + delay)
        live.fold(each)

    at_once = Cycles(kind, ProcessingTime(grace)).fold_in([backlog])

    assert _results(live.finish()) == _results(at_once.finish())
    assert live.counts["moved"] == at_once.counts["moved"] == 0


@many
@given(events(), st.sampled_from([Sliding(6, 2), Sliding(5, 2), Sliding(3, 3), Sliding(1, 0.5)]))
def test_a_sliding_window_holds_exactly_the_events_of_its_span(
    whole: list[Event], kind: Sliding
) -> None:
    cycles = Cycles(kind, EventTime(lambda _: 0, "wait", out_of_order=100)).fold_in([whole])

    found = {(each.lane, each.key, each.start): each.data for each in cycles.finish().results}
    every = int(float(kind.every) * 2)  # type: ignore[arg-type]
    for lane in "ab":
        for key in "xy":
            for half in range(-every * 20, 122, every):
                start, end = half / 2, half / 2 + float(kind.size)  # type: ignore[arg-type]
                inside = [
                    each.payload["amount"]
                    for each in whole
                    if (each.lane, each.key) == (lane, key) and start <= each.time < end
                ]
                data = found.pop((lane, key, start), {"count": 0})
                assert data["count"] == len(inside)
                assert not inside or data["max"] == max(inside)
    assert not found


@many
@given(events(lanes="a"), st.randoms(use_true_random=False))
def test_sessions_are_those_of_the_sorted_events_in_any_order(
    whole: list[Event], random: Any
) -> None:
    wide = EventTime(lambda _: 0, "wait", out_of_order=100)
    shuffled = list(whole)
    random.shuffle(shuffled)

    found = Cycles(Session(2), wide).fold_in([[each] for each in shuffled]).finish()

    aside = Cycles(Session(2), wide).fold_in([sorted(whole, key=attrgetter("time"))]).finish()
    assert _results(found) == _results(aside)
    assert _spans(found.results) == _sessions(whole, 2)


def _spans(results: list[WindowResult]) -> set[tuple[str, float, float, int]]:
    return {(each.key, each.start, each.end, each.data["count"]) for each in results}


def _sessions(whole: list[Event], gap: float) -> set[tuple[str, float, float, int]]:
    by_key: dict[str, list[float]] = defaultdict(list)
    for each in whole:
        by_key[each.key].append(each.time)
    spans = set()
    for key, moments in by_key.items():
        moments.sort()
        runs = [[moments[0]]]
        for moment in moments[1:]:
            if moment - runs[-1][-1] < gap:
                runs[-1].append(moment)
            else:
                runs.append([moment])
        spans |= {(key, run[0], run[-1] + gap, len(run)) for run in runs}
    return spans


@many
@given(st.lists(amounts, min_size=1), st.randoms(use_true_random=False), st.integers(0, 50))
def test_merging_in_any_order_gives_the_same_numbers(
    given_: list[Any], random: Any, cut: int
) -> None:
    whole = totals()
    shuffled = list(given_)
    random.shuffle(shuffled)

    parts = [_state(shuffled[:cut]), _state(shuffled[cut:])]

    assert whole.result(whole.merge(*parts)) == whole.result(_state(given_))


def _state(given_: list[Any]) -> Any:
    whole = totals()
    state = whole.initial()
    for amount in given_:
        state = whole.add(state, whole.read({"amount": amount}))
    return whole.load(whole.dump(state))
