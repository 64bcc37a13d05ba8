"""Windows from options by name, their ids, and the shape of a query."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog.store import Query
from acemq_amqp.eventlog.windows import (
    Aggregation,
    Calendar,
    EventTime,
    Kind,
    Operator,
    Pipeline,
    ProcessingTime,
    Session,
    Sliding,
    Timing,
    Tumbling,
    Verb,
    WindowDefinition,
    defined,
    shape_of,
    sum_of,
    window_id,
)
from tests.eventlog.windows.cycles import amount


@pytest.mark.parametrize(
    ("verb", "options", "expected"),
    [
        (
            "tumbling",
            {"seconds": 2, "idle_flush_ms": 800},
            WindowDefinition(Tumbling(2), ProcessingTime(), 0.8),
        ),
        (
            "tumbling",
            {"size": timedelta(minutes=1), "grace": 5, "idle_flush": 2},
            WindowDefinition(Tumbling(timedelta(minutes=1)), ProcessingTime(5), 2),
        ),
        ("sliding", {"size": 4, "every": 2}, WindowDefinition(Sliding(4, 2), ProcessingTime())),
        ("session", {"gap": 4}, WindowDefinition(Session(4), ProcessingTime())),
        (
            "cron",
            {"cron": "0 * * * *", "zone": "Europe/Paris"},
            WindowDefinition(Calendar("0 * * * *", "Europe/Paris"), ProcessingTime()),
        ),
        (
            "tumbling",
            {"size": 2, "event_time": amount, "idle_lanes": 5, "out_of_order": 1},
            WindowDefinition(Tumbling(2), EventTime(amount, 5.0, 1.0)),
        ),
    ],
)
def test_a_window_is_defined_by_options(
    verb: Verb, options: dict[str, Any], expected: WindowDefinition
) -> None:
    assert defined(verb, options) == expected


@pytest.mark.parametrize(
    ("verb", "options", "told"),
    [
        ("tumbling", {"second": 2}, "did you mean 'seconds'"),
        ("tumbling", {}, "wants its size once"),
        ("tumbling", {"size": 1, "seconds": 1}, "wants its size once"),
        ("tumbling", {"size": 1, "every": 1}, "knows no 'every'"),
        ("sliding", {"size": 1}, "wants every"),
        ("session", {}, "wants its gap once"),
        ("cron", {}, "wants cron"),
        ("tumbling", {"size": 1, "late": "drop"}, "late, which are for event time"),
        ("tumbling", {"size": 1, "event_time": amount}, "idle_lanes='wait'"),
        ("tumbling", {"size": 1, "event_time": amount, "grace": 1}, "give out_of_order"),
        ("tumbling", {"size": 1, "idle_flush": 0}, "idle_flush of .* is 0"),
        ("tumbling", {"size": 1, "idle_flush": 1, "idle_flush_ms": 1}, "idle_flush twice"),
    ],
)
def test_options_that_cannot_be_are_refused(verb: Verb, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        defined(verb, options)


def test_a_windows_id_is_spelled_as_it_is_written_down() -> None:
    spelled = '["totals",3,"acm\\u00e9","k",1700000000000,1700000002500,1]'

    made = window_id(Query("totals", 3), "acmé", "k", 1_700_000_000.0, 1_700_000_002.5, 1)

    assert made == sha256(spelled.encode()).hexdigest()


def _shape(
    kind: Kind | None = None,
    timing: Timing | None = None,
    named: Any = None,
    steps: tuple[Operator, ...] = (),
    sink: str = "log totals",
    version: str = "",
) -> str:
    aggregation = Aggregation(named or {"sum": amount})
    kind, timing = kind or Tumbling(2), timing or ProcessingTime()
    return shape_of("events", Pipeline(steps), kind, timing, aggregation, Pipeline(), sink, version)


@pytest.mark.parametrize(
    "other",
    [
        {"kind": Tumbling(3)},
        {"kind": Session(2)},
        {"kind": Calendar("0 * * * *")},
        {"timing": ProcessingTime(2)},
        {"timing": EventTime(amount, "wait")},
        {"named": {"count": amount}},
        {"named": {"total": sum_of(amount)}},
        {"steps": (Operator("map", str),)},
        {"sink": "queue totals"},
        {"version": "2"},
    ],
)
def test_kinds_numbers_names_sink_and_version_are_of_the_shape(other: dict[str, Any]) -> None:
    assert _shape(**other) != _shape()


def test_what_functions_do_is_not_of_the_shape() -> None:
    one = _shape(named={"sum": amount}, steps=(Operator("map", str),))
    other = _shape(named={"sum": lambda _: 0}, steps=(Operator("map", int), Operator("map", str)))

    assert one == other
    assert _shape(kind=Tumbling(2)) == _shape(kind=Tumbling(timedelta(seconds=2)))
