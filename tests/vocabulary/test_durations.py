"""Spans of time are checked where they are given, and spelled as rungs are named."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acemq_amqp.durations import milliseconds, seconds, spelled
from acemq_amqp.errors import ConfigurationError


@pytest.mark.parametrize(
    ("given_", "expected"),
    [(0, 0.0), (5, 5.0), (0.25, 0.25), (timedelta(minutes=2), 120.0), (timedelta(), 0.0)],
)
def test_a_duration_is_a_timedelta_or_seconds(given_: Any, expected: float) -> None:
    assert seconds(given_, "timeout") == expected
    assert type(seconds(given_, "timeout")) is float


@pytest.mark.parametrize(
    "wrong",
    [
        *(-1, -0.001, timedelta(seconds=-1), float("nan"), float("inf"), float("-inf")),
        *(10**400, True, False, None, "5", "5s", [5], 1j),
    ],
)
def test_what_is_no_duration_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^acemq: the timeout is ") as refused:
        seconds(wrong, "the timeout")
    assert "give" in str(refused.value)


@pytest.mark.parametrize(
    ("given_", "expected"),
    [(0.0004, 0), (0.0006, 1), (1.1, 1100), (2.3, 2300), (timedelta(microseconds=1600), 2)],
)
def test_milliseconds_are_whole(given_: Any, expected: int) -> None:
    assert milliseconds(given_, "delay") == expected


@pytest.mark.parametrize(
    ("value", "label"),
    [
        *((0.5, "500ms"), (90, "90s"), (300, "5m"), (7200, "2h")),
        *((0.001, "1ms"), (1, "1s"), (1.5, "1500ms"), (59, "59s"), (60, "1m"), (61, "61s")),
        *((3600, "1h"), (5400, "90m"), (3601, "3601s"), (86400, "24h"), (60.001, "60001ms")),
        (0, "0s"),
    ],
)
def test_labels_are_the_contracts(value: float, label: str) -> None:
    assert spelled(value) == label


@given(st.integers(1, 2**32 - 1))
def test_a_label_says_its_milliseconds_exactly(ms: int) -> None:
    label = spelled(ms / 1000)
    digits = label.rstrip("hms")
    size = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}[label.removeprefix(digits)]
    assert int(digits) * size == ms
