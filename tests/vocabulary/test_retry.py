"""Retry arithmetic, case by case of the contract."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.retry import (
    GiveUp,
    RetryPolicy,
    Wait,
    exponential_retry,
    fixed_retry,
    no_retry,
)


def test_the_defaults_are_the_contracts() -> None:
    policy = RetryPolicy()
    assert policy.max_attempts == 1
    assert policy.multiplier == 2.0
    assert policy.max_delay == 0
    assert policy.jitter_factor == 0
    assert policy.max_message_age == 0
    assert policy.broker_wait_threshold == 30.0
    assert no_retry() == policy


def test_fixed_retry_neither_grows_nor_jitters() -> None:
    policy = fixed_retry(4, 5)
    assert (policy.multiplier, policy.jitter_factor) == (1.0, 0.0)
    assert policy.schedule() == (5.0, 5.0, 5.0)


def test_exponential_retry_doubles_with_jitter() -> None:
    policy = exponential_retry(4, timedelta(seconds=5))
    assert (policy.multiplier, policy.jitter_factor, policy.max_delay) == (2.0, 0.2, 0.0)
    assert policy.schedule() == (5.0, 10.0, 20.0)


@pytest.mark.parametrize(
    ("policy", "schedule"),
    [
        (no_retry(), ()),
        (fixed_retry(1, 5), ()),
        (exponential_retry(6, 1, 5), (1.0, 2.0, 4.0, 5.0, 5.0)),
        (exponential_retry(3, 0), (0.0, 0.0)),
        (exponential_retry(4, 0.0006), (0.001, 0.002, 0.004)),
        (RetryPolicy(4, 0.1, multiplier=1.5), (0.1, 0.15, 0.225)),
        (RetryPolicy(5, 0.001, multiplier=1.5), (0.001, 0.002, 0.002, 0.003)),
        (RetryPolicy(3, 1.001, multiplier=1.5), (1.001, 1.502)),
        (RetryPolicy(3, 1.003, multiplier=2.5), (1.003, 2.508)),
        (RetryPolicy(4, 2, multiplier=10, max_delay=timedelta(minutes=1)), (2.0, 20.0, 60.0)),
        (exponential_retry(3, 1, max_delay=1), (1.0, 1.0)),
    ],
)
def test_schedules(policy: RetryPolicy, schedule: tuple[float, ...]) -> None:
    assert policy.schedule() == schedule


@pytest.mark.parametrize(("initial", "last"), [(0, 0.0), (1, 2**53 / 1000)])
def test_a_wait_without_limit_grows_up_to_what_a_number_can_count(
    initial: int, last: float
) -> None:
    assert exponential_retry(3000, initial).schedule()[-1] == last


@pytest.mark.parametrize(
    ("policy", "rungs"),
    [
        (no_retry(), ()),
        (fixed_retry(5, 29.999), ()),
        (fixed_retry(5, 30), (30.0,)),
        (exponential_retry(6, 10), (40.0, 80.0, 160.0)),
        (exponential_retry(9, 10, 100), (40.0, 80.0, 100.0)),
        (exponential_retry(6, 10).wait_in_broker_from(0), ()),
        (exponential_retry(4, 1).wait_in_broker_from(2), (2.0, 4.0)),
        (exponential_retry(10**9, 10, 100), (40.0, 80.0, 100.0)),
        (fixed_retry(10**9, 60), (60.0,)),
        (fixed_retry(10**9, 0).wait_in_broker_from(0.001), ()),
    ],
)
def test_rungs_are_the_distinct_waits_held_by_the_broker(
    policy: RetryPolicy, rungs: tuple[float, ...]
) -> None:
    assert policy.broker_rungs() == rungs


@pytest.mark.parametrize(
    ("policy", "attempt", "age", "decided"),
    [
        (no_retry(), 1, 0, GiveUp("exhausted 1 attempt")),
        (fixed_retry(3, 5), 3, 0, GiveUp("exhausted 3 attempts")),
        (fixed_retry(3, 5), 7, 0, GiveUp("exhausted 7 attempts")),
        (fixed_retry(3, 5), 1, 0, Wait(5.0, 5.0, "here")),
        (fixed_retry(3, 5), 2, 10**9, Wait(5.0, 5.0, "here")),
        (fixed_retry(3, 30), 1, 0, Wait(30.0, 30.0, "broker")),
        (fixed_retry(3, 29.999), 1, 0, Wait(29.999, 29.999, "here")),
        (fixed_retry(3, 300).wait_in_broker_from(0), 1, 0, Wait(300.0, 300.0, "here")),
        (exponential_retry(6, 10), 3, 0, Wait(40.0, 40.0, "broker")),
    ],
)
def test_decisions(policy: RetryPolicy, attempt: int, age: Any, decided: Any) -> None:
    assert policy.next_wait(attempt, age) == decided


@pytest.mark.parametrize(
    ("age", "given_up"), [(89.999, False), (90, True), (timedelta(hours=1), True), (-5, False)]
)
def test_a_message_too_old_is_given_up(age: Any, given_up: bool) -> None:
    decided = fixed_retry(9, 1).give_up_after(timedelta(seconds=90)).next_wait(1, age)
    if given_up:
        assert decided == GiveUp("exceeded the maximum message age of 90s")
    else:
        assert decided == Wait(1.0, 1.0, "here")


def test_the_attempts_are_told_before_the_age() -> None:
    decided = fixed_retry(2, 1).give_up_after(1).next_wait(2, 100)
    assert decided == GiveUp("exhausted 2 attempts")


@pytest.mark.parametrize(("drawn", "delay"), [(0.0, 8.0), (0.5, 10.0), (0.75, 11.0), (0.25, 9.0)])
def test_a_wait_here_is_spread_either_way(drawn: float, delay: float) -> None:
    decided = exponential_retry(3, 10).next_wait(1, 0, lambda: drawn)
    assert isinstance(decided, Wait)
    assert decided.delay == pytest.approx(delay)
    assert decided.base == 10.0


def test_a_jittered_wait_is_at_least_a_millisecond() -> None:
    assert fixed_retry(2, 0.01).with_jitter(1).next_wait(1, 0, lambda: 0.0) == Wait(
        0.001, 0.01, "here"
    )


def test_a_wait_in_the_broker_is_never_spread() -> None:
    policy = fixed_retry(2, 60).with_jitter(1)
    assert policy.next_wait(1, 0, lambda: 0.0) == Wait(60.0, 60.0, "broker")


@pytest.mark.parametrize(
    "wrong",
    [
        *({"max_attempts": 0}, {"max_attempts": -1}, {"max_attempts": True}),
        *({"max_attempts": 2.0}, {"max_attempts": None}, {"initial_delay": -1}),
        *({"initial_delay": "1s"}, {"initial_delay": float("nan")}, {"multiplier": 0.5}),
        *({"multiplier": float("nan")}, {"multiplier": float("inf")}, {"multiplier": "2"}),
        *({"multiplier": True}, {"jitter_factor": -0.1}, {"jitter_factor": 1.1}),
        *({"jitter_factor": float("nan")}, {"max_delay": -1}, {"max_message_age": -1}),
        *({"broker_wait_threshold": -1}, {"initial_delay": 10, "max_delay": 5}),
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"^acemq: .*retry policy") as refused:
        RetryPolicy(**wrong)
    assert "give" in str(refused.value)


@pytest.mark.parametrize("name", ["max_delay", "max_message_age", "broker_wait_threshold"])
@pytest.mark.parametrize("little", [0.0004, timedelta(microseconds=1)])
def test_a_limit_of_next_to_nothing_is_not_the_0_that_means_none(name: str, little: Any) -> None:
    assert getattr(RetryPolicy(2, 0, **{name: little}), name) == 0.001
    assert getattr(RetryPolicy(2, 0, **{name: 0}), name) == 0


def test_variations_leave_the_policy_as_it_is() -> None:
    policy = exponential_retry(3, 1)
    varied = policy.give_up_after(60).with_jitter(0.5).wait_in_broker_from(timedelta(seconds=2))
    assert varied == RetryPolicy(3, 1, 2.0, 0, 0.5, 60, 2)
    assert policy == exponential_retry(3, 1)
    assert hash(varied) != hash(policy)
    with pytest.raises(AttributeError):
        policy.max_attempts = 5  # type: ignore[misc]
    with pytest.raises(ConfigurationError):
        policy.with_jitter(2)


policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 2000),
    initial_delay=st.integers(0, 10**6).map(lambda ms: ms / 1000),
    multiplier=st.floats(1, 100),
    max_delay=st.sampled_from([0, 10**4]),
    jitter_factor=st.floats(0, 1),
    broker_wait_threshold=st.sampled_from([0, 0.5, 30]),
)


@given(policies)
def test_a_schedule_never_falls_and_the_rungs_are_in_it(policy: RetryPolicy) -> None:
    schedule = policy.schedule()
    assert len(schedule) == policy.max_attempts - 1
    assert list(schedule) == sorted(schedule)
    limit = policy.broker_wait_threshold
    held = [delay for delay in schedule if limit and delay >= limit]
    assert list(policy.broker_rungs()) == sorted(set(held))
    if policy.max_delay:
        assert all(delay <= policy.max_delay for delay in schedule)


@given(policies, st.integers(1, 2000), st.floats(0, 1, exclude_max=True))
def test_decisions_follow_the_schedule(policy: RetryPolicy, attempt: int, drawn: float) -> None:
    assume(attempt < policy.max_attempts)
    decided = policy.next_wait(attempt, 0, lambda: drawn)
    assert isinstance(decided, Wait)
    assert decided.base == policy.schedule()[attempt - 1]
    assert (decided.base in policy.broker_rungs()) == (decided.where == "broker")
    spread = policy.jitter_factor * decided.base
    assert abs(decided.delay - decided.base) <= max(spread * 1.000001, 0.001)
    if decided.where == "broker":
        assert decided.delay == decided.base
