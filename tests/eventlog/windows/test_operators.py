"""What happens to payloads before they count."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from acemq_amqp.errors import ConfigurationError, MessageError
from acemq_amqp.eventlog.windows import EventTime, Gated, Operator, Pipeline
from acemq_amqp.eventlog.windows.operators import OperatorKind


@dataclass
class Stands:
    lane: str = "acme"


async def later(payload: Any) -> Any:
    return payload


class Later:
    async def __call__(self, payload: Any) -> Any:
        return payload


def pipeline(*steps: tuple[OperatorKind, Any]) -> Pipeline:
    return Pipeline([Operator(kind, function) for kind, function in steps])


@pytest.mark.parametrize(
    ("steps", "pieces"),
    [
        ([], [("acme", 5)]),
        ([("map", lambda n: n + 1), ("map", lambda n: n * 2)], [("acme", 12)]),
        ([("filter", lambda n: n > 5)], []),
        ([("filter", lambda n: n == 5)], [("acme", 5)]),
        ([("flat_map", range), ("filter", lambda n: n % 2)], [("acme", 1), ("acme", 3)]),
        ([("flat_map", lambda n: [])], []),
        ([("key_by", lambda n: n), ("map", str)], [("5", "5")]),
        ([("flat_map", lambda n: ["ab"]), ("key_by", lambda s: s[0])], [("a", "ab")]),
        ([("map", lambda n, context: context.lane)], [("acme", "acme")]),
        ([("map", lambda n, factor=3: n * factor)], [("acme", 15)]),
        ([("map", partial(pow, 2))], [("acme", 32)]),
        ([("gate", lambda n: True)], [("acme", 5)]),
    ],
)
def test_steps_are_applied_in_their_order(steps: list[Any], pieces: list[Any]) -> None:
    assert pipeline(*steps).apply(5, Stands()) == pieces


def test_a_gate_holds_a_message_back_with_all_its_pieces() -> None:
    with pytest.raises(Gated):
        pipeline(("flat_map", range), ("gate", lambda n: n < 3)).apply(5, Stands())


def test_what_a_function_raises_is_raised() -> None:
    with pytest.raises(KeyError):
        pipeline(("map", lambda n: {"total": n}["amount"])).apply(5, Stands())


@pytest.mark.parametrize(
    ("kind", "given", "told"),
    [
        ("flat_map", "ab", "gave a str"),
        ("flat_map", {"a": 1}, "gave a dict"),
        ("flat_map", None, "gave a NoneType"),
        ("key_by", None, "gave a NoneType"),
        ("key_by", 1.5, "gave a float"),
        ("key_by", True, "gave a bool"),
        ("key_by", "a\0b", "without NUL"),
        ("key_by", "\ud800", "UTF-8"),
        ("key_by", "ä" * 513, "at most 1024 bytes"),
    ],
)
def test_what_a_step_cannot_use_is_the_messages_error(
    kind: OperatorKind, given: Any, told: str
) -> None:
    with pytest.raises(MessageError, match=told):
        pipeline((kind, lambda _: given)).apply(5, Stands())


def test_something_to_await_is_refused_when_it_comes() -> None:
    made = later(5)
    with pytest.raises(MessageError, match="to await"):
        pipeline(("filter", lambda _: made)).apply(5, Stands())
    made.close()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Operator("map", later), r"map\(\) got a coroutine function"),
        (lambda: Operator("map", partial(later)), "coroutine function"),
        (lambda: Operator("map", Later()), "coroutine function"),
        (lambda: Operator("filter", 5), r"filter\(\) wants a function"),  # type: ignore[arg-type]
        (lambda: Operator("fliter", str), "did you mean 'filter'"),  # type: ignore[arg-type]
        (lambda: pipeline(("key_by", str), ("key_by", str)), "called twice"),
    ],
)
def test_a_step_that_cannot_be_is_refused(make: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make()


@pytest.mark.parametrize(
    ("given", "time"),
    [
        (1_700_000_000, 1_700_000_000.0),
        (1_700_000_000.12345, 1_700_000_000.123),
        (datetime(2024, 1, 1, tzinfo=UTC), 1_704_067_200.0),
    ],
)
def test_an_event_time_is_aware_or_in_seconds(given: Any, time: float) -> None:
    assert EventTime(lambda _: given, "wait").time_of({}) == time


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (1_700_000_000_000, "not milliseconds"),
        (float("nan"), "nan is not of the years"),
        (datetime(2024, 1, 1), "names no zone"),
        ("2024-01-01", "of the type str"),
        (True, "of the type bool"),
        (None, "of the type NoneType"),
    ],
)
def test_any_other_event_time_is_the_messages_error(given: Any, told: str) -> None:
    with pytest.raises(MessageError, match=told):
        EventTime(lambda _: given, "wait").time_of({})


def test_a_payload_without_its_event_time_is_the_messages_error() -> None:
    with pytest.raises(MessageError, match="KeyError"):
        EventTime(lambda sale: sale["at"], "wait").time_of({})
