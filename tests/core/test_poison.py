"""Which deliveries are suspected, put back with a count, handled, or parked."""

from __future__ import annotations

from typing import Any

import pytest

from acemq_amqp.core.poison import must_be_alone, poison_hop, put_back, suspected
from acemq_amqp.core.settlement import Hop
from tests.core.arrivals import arrival

OURS, THEIRS = "x-acemq-deliveries", "x-delivery-count"
HANDLE = None


@pytest.mark.parametrize(
    ("headers", "redelivered", "is_suspected"),
    [
        ({}, False, False),
        ({}, True, True),
        ({OURS: 1}, False, True),
        ({OURS: 0}, False, False),
        ({THEIRS: 5}, False, False),  # a republished count is believed by nobody
        ({OURS: "many"}, False, False),
        ({OURS: True}, False, False),
        ({OURS: -1}, False, False),
    ],
)
def test_who_is_suspected(headers: dict[str, Any], redelivered: bool, is_suspected: bool) -> None:
    assert suspected(arrival(headers, redelivered=redelivered)) is is_suspected


#: headers, redelivered, alone -> handle it, put it back, or park it; at 3 deliveries at most
_TABLE: list[tuple[dict[str, Any], bool, bool, Any]] = [
    # a quorum queue counts by itself
    ({THEIRS: 1}, True, True, HANDLE),
    ({THEIRS: 2}, True, True, HANDLE),
    ({THEIRS: 3}, True, True, "parked"),
    ({THEIRS: 9}, True, False, HANDLE),
    ({THEIRS: 9}, False, True, HANDLE),
    # a classic queue counts nothing: the first redelivery is put back with a count of ours
    ({}, True, True, 1),
    ({}, True, False, 1),
    ({OURS: 1}, False, True, HANDLE),
    ({OURS: 1}, True, True, 2),
    ({OURS: 2}, True, True, "parked"),
    ({OURS: 2}, True, False, 3),
    ({OURS: 3}, False, True, "parked"),
    ({OURS: 3}, False, False, HANDLE),
    # put back by hand on a quorum queue, which then counts from nothing
    ({OURS: 2, THEIRS: 1}, True, True, "parked"),
    ({OURS: 1, THEIRS: 1}, True, True, HANDLE),
    # what somebody else wrote there
    ({OURS: "many"}, True, True, 1),
    ({OURS: -9}, True, True, 1),
    ({THEIRS: -9}, True, True, HANDLE),
    ({OURS: 2, THEIRS: -9}, True, True, HANDLE),
    ({OURS: 2**63 - 1}, True, False, 2**63 - 1),
    ({THEIRS: "three"}, True, True, HANDLE),
]


@pytest.mark.parametrize(("headers", "redelivered", "alone", "wanted"), _TABLE)
def test_what_is_done(headers: dict[str, Any], redelivered: bool, alone: bool, wanted: Any) -> None:
    hop = poison_hop(arrival(headers, redelivered=redelivered), "q", alone=alone, most=3)
    if wanted is HANDLE:
        assert hop is None
    elif wanted == "parked":
        assert hop is not None and (hop.target, hop.result) == ("q.parked", "parked")
        assert "never answered" in hop.put["x-acemq-error"]
    else:
        assert hop is not None
        assert (hop.target, dict(hop.put)) == ("q", {OURS: wanted})


def test_a_put_back_is_no_attempt() -> None:
    hop = poison_hop(arrival({}, redelivered=True), "q", alone=True, most=3)
    assert isinstance(hop, Hop) and "x-acemq-attempt" not in hop.put


@pytest.mark.parametrize(
    ("deliveries", "most", "alone"),
    [
        (0, 10, False),
        (1, 10, False),  # most often a connection that was lost
        (2, 10, True),
        (9, 10, True),
        (1, 2, True),  # or its last delivery would not be one that it had alone
        (0, 1, False),
        (1, 1, True),
    ],
)
def test_who_must_be_alone(deliveries: int, most: int, alone: bool) -> None:
    assert must_be_alone(arrival({OURS: deliveries}, redelivered=False), most) is alone
    if deliveries:
        counted = arrival({THEIRS: deliveries}, redelivered=True)
        assert must_be_alone(counted, most) is alone


def test_a_suspect_that_is_put_back_keeps_its_count() -> None:
    hop = put_back(arrival({OURS: 2, THEIRS: 3}, redelivered=True), "q")
    assert (hop.target, dict(hop.put)) == ("q", {OURS: 5})


def test_what_must_keep_its_order_is_never_put_back_behind_others() -> None:
    came_again = arrival({}, redelivered=True)
    assert poison_hop(came_again, "orders", alone=True, most=3, ordered=True) is None
    counted = arrival({THEIRS: 3}, redelivered=True)
    hop = poison_hop(counted, "orders", alone=True, most=3, ordered=True)
    assert hop is not None and hop.result == "parked"
