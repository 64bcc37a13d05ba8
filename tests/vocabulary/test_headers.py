"""Reserved names, and the reading rules of header values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acemq_amqp import headers
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.headers import is_carried, is_hidden, read_number, read_text, refuse_reserved


def shown(value: Any) -> str:
    """A test's name; an integer of thousands of digits has none of its own."""
    return type(value).__name__


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, ""), ("", ""), ("a", "a"), (b"caf\xc3\xa9", "café"), (b"\xff", "\ufffd")),
        *((bytearray(b"x"), "x"), (5, "5"), (True, "True"), (1.5, "1.5"), ([1], "[1]")),
        *(({"a": 1}, "{'a': 1}"), (Unprintable(), ""), (10**5000, "")),
    ],
    ids=shown,
)
def test_reading_a_string(value: Any, text: str) -> None:
    assert read_text(value) == text


@pytest.mark.parametrize(
    ("value", "number"),
    [
        *((3, 3), (2**63 - 1, 2**63 - 1), ("3", 3), (b"3", 3), (" 3 ", 3), (Decimal(3), 3)),
        *((True, 7), (False, 7), (None, 7), ("", 7), ("x", 7), ("3.0", 7), (3.0, 7), (b"\xff", 7)),
        *(
            ([3], 7),
            (2**63, 7),
            (10**5000, 7),
            ("9" * 5000, 7),
            (0, 7),
            (-1, 7),
            (Unprintable(), 7),
        ),
    ],
    ids=shown,
)
def test_reading_a_number_from_one(value: Any, number: int) -> None:
    assert read_number(value, 7, least=1) == number


def test_a_number_may_be_of_any_sign_where_no_least_is_asked() -> None:
    assert read_number(-(2**63), 0) == -(2**63)
    assert read_number(-(2**63) - 1, 0) == 0


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(ANYTHING)
def test_reading_never_raises(value: Any) -> None:
    assert isinstance(read_text(value), str)
    assert isinstance(read_number(value, 1), int)


OURS = [
    *("x-acemq-exchange", "x-acemq-routing-key", "x-acemq-deliveries", "x-acemq-expiration"),
    "x-acemq-user-id",
]
BROKERS = [
    *("x-death", "x-first-death-queue", "x-last-death-reason"),
    *("x-delivery-count", "x-acquired-count"),
]
LOGS = ["acemq-log-lane", "acemq-log-time", "acemq-log-mark", "acemq-log-window-start"]
VISIBLE = [
    *("traceparent", "tracestate", "acemq-reply-to", "acemq-error", "acemq-routing-slip"),
    *("acemq-replayed-from", "acemq-replayed-at", "acemq-replay-count", "x-schedule-due-at"),
    *("x-deaths", "x-acem", "acemq-logs", "X-Acemq-Id", "tenant", ""),
    *("acemq-log-lanes", "acemq-log-timeline", "acemq-log-marked", "acemq-log-group"),
]


@pytest.mark.parametrize("name", [*headers.ENVELOPE, *OURS, *BROKERS, *LOGS, "x-acemq-newer"])
def test_what_an_application_does_not_see(name: str) -> None:
    assert is_hidden(name)


@pytest.mark.parametrize("name", VISIBLE)
def test_what_an_application_sees(name: str) -> None:
    assert not is_hidden(name)


def test_only_what_a_newer_library_wrote_is_carried() -> None:
    every = [*headers.ENVELOPE, *OURS, *LOGS, *VISIBLE, "x-acemq-newer"]
    assert [name for name in every if is_carried(name)] == ["x-acemq-newer"]


def test_reserved_names_are_refused_and_all_named() -> None:
    with pytest.raises(ConfigurationError, match="x-acemq-id, x-acemq-zone") as refused:
        refuse_reserved(["x-acemq-zone", "tenant", "x-acemq-id"])
    assert "tenant" not in str(refused.value)


def test_a_header_name_is_a_string() -> None:
    with pytest.raises(ConfigurationError, match="header name 5"):
        refuse_reserved([5])  # type: ignore[list-item]


def test_the_rest_is_the_applications() -> None:
    refuse_reserved([*VISIBLE, *LOGS])
