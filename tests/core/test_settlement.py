"""What becomes of a delivery, decided from values alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from acemq_amqp import FatalError, in_progress, park, reject, retry
from acemq_amqp.ack import Ack, decision_for
from acemq_amqp.core.settlement import Hold, Hop, settlement_of
from acemq_amqp.envelope import Envelope
from acemq_amqp.errors import DecodeError
from acemq_amqp.retry import RetryPolicy, exponential_retry, fixed_retry, no_retry

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def settled(
    ack: Ack, policy: RetryPolicy, attempt: int = 1, age: float = 0.0, dice: float = 0.5
) -> Any:
    envelope = Envelope(attempt=attempt, first_seen=NOW - timedelta(seconds=age))
    return settlement_of(ack, envelope, queue="q", policy=policy, now=NOW, dice=lambda: dice)


def again(attempt: int) -> dict[str, int]:
    return {"x-acemq-attempt": attempt}


def why(text: str) -> dict[str, str]:
    return {"x-acemq-error": text}


_ASIDE = [
    (reject(), Hop("q.dlq", "rejected", why("the handler rejected it: no reason given"))),
    (reject("old"), Hop("q.dlq", "rejected", why("the handler rejected it: old"))),
    (park(ValueError()), Hop("q.parked", "parked", why("the handler parked it: ValueError"))),
    (
        decision_for(FatalError("gone")),
        Hop(
            "q.dlq",
            "dead_lettered",
            why("the handler reported an unprocessable message: FatalError: gone"),
        ),
    ),
    (
        decision_for(DecodeError("cut")),
        Hop("q.parked", "parked", why("could not be decoded: DecodeError: cut")),
    ),
]


@pytest.mark.parametrize(("ack", "hop"), _ASIDE, ids=lambda each: str(each)[:40])
@pytest.mark.parametrize("policy", [no_retry(), fixed_retry(5, 1)], ids=["once", "five times"])
def test_what_is_set_aside_is_never_tried_again(ack: Ack, hop: Hop, policy: RetryPolicy) -> None:
    assert settled(ack, policy) == hop


_GIVEN_UP = [
    (no_retry(), 1, 0.0, "exhausted 1 attempt: E: no"),
    (fixed_retry(3, 1), 3, 0.0, "exhausted 3 attempts: E: no"),
    (fixed_retry(3, 1), 7, 0.0, "exhausted 7 attempts: E: no"),
    (fixed_retry(9, 1).give_up_after(60), 1, 60.0, "exceeded the maximum message age of 1m: E: no"),
    (fixed_retry(2, 1).give_up_after(60), 2, 60.0, "exhausted 2 attempts: E: no"),
]


@pytest.mark.parametrize(("policy", "attempt", "age", "error"), _GIVEN_UP)
def test_a_retry_that_is_given_up(
    policy: RetryPolicy, attempt: int, age: float, error: str
) -> None:
    class E(Exception):
        pass

    hop = settled(retry(E("no")), policy, attempt, age)
    assert hop == Hop("q.dlq", "dead_lettered", why(error))


def test_a_retry_without_a_wait_hops_at_once() -> None:
    assert settled(retry(), fixed_retry(3, 0)) == Hop("q", "retried", again(2))


def test_a_short_wait_is_held_and_may_spill_into_the_rung_of_its_unjittered_delay() -> None:
    policy = exponential_retry(5, 10)
    held = settled(retry(), policy, attempt=2, dice=1.0)
    rung = Hop("q.retry.20s", "retried", again(3), rung=20.0)
    assert held == Hold(24.0, Hop("q", "retried", again(3)), spill=rung)


def test_a_long_wait_is_the_broker_s_and_unjittered() -> None:
    policy = exponential_retry(5, 30)
    assert settled(retry(), policy, attempt=2, dice=1.0) == Hop(
        "q.retry.1m", "retried", again(3), rung=60.0
    )


def test_without_a_threshold_every_wait_is_held() -> None:
    policy = fixed_retry(2, 3600).wait_in_broker_from(0)
    assert isinstance(settled(retry(), policy), Hold)


def test_in_progress_waits_here_and_changes_nothing() -> None:
    assert settled(in_progress(7), no_retry()) == Hold(7.0, Hop("q", "in_progress"))
