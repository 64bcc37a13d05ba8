"""Where reading begins: what each beginning is on the wire, and what is none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.fieldtable import encode_table
from acemq_amqp.offsets import Ago, At, First, Last, Next, Offset, Start, checked_start

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("start", "wire"),
    [
        (First, "first"),
        (Next, "next"),
        (Last, "last"),
        (Offset(0), 0),
        (Offset(2**40), 2**40),
        (At(NOON), NOON),
        (At(NOON.replace(microsecond=999_999)), NOON),
        (At(NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))), NOON),
        (Ago(timedelta(hours=2)), "7200s"),
        (Ago(timedelta(seconds=1)), "1s"),
        (Ago(timedelta(milliseconds=1)), "1s"),
        (Ago(timedelta(seconds=2, microseconds=1)), "3s"),
    ],
    ids=str,
)
def test_each_beginning_travels_as_its_type(start: Start, wire: object) -> None:
    argument = start.argument()
    assert argument == wire and type(argument) is type(wire)
    assert encode_table({"x-stream-offset": argument})
    assert checked_start(start) is start


@pytest.mark.parametrize("value", [-1, 1.0, "5", True, None, 2**63])
def test_an_offset_is_a_whole_number(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="whole number of 0 or more"):
        Offset(value)


@pytest.mark.parametrize("moment", [datetime(2024, 5, 1), 1_714_564_800, "2024-05-01T00:00Z", None])
def test_a_moment_has_a_zone(moment: Any) -> None:
    with pytest.raises(ConfigurationError, match="aware datetime"):
        At(moment)


def test_a_moment_before_the_epoch_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="before 1970"):
        At(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC))


@pytest.mark.parametrize(
    "span", [timedelta(), timedelta(seconds=-1), timedelta.max, 60, "1h", None]
)
def test_a_span_is_a_timedelta_of_some_length(span: Any) -> None:
    with pytest.raises(ConfigurationError, match="timedelta over 0"):
        Ago(span)


@pytest.mark.parametrize("start", ["first", 0, 1.5, NOON, timedelta(1), None])
def test_nothing_else_is_a_beginning(start: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"First, Next, Last, Offset"):
        checked_start(start)
