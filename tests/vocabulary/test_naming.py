"""The names around a queue are the wire contract's."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from acemq_amqp import naming
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.naming import dead_letter_queue, parked_queue, retry_queue, rung_label


def test_the_exchanges() -> None:
    assert naming.RETRY_EXCHANGE == "acemq.retry"
    assert naming.DEAD_LETTER_EXCHANGE == "acemq.dlx"
    assert naming.SCHEDULE_EXCHANGE == "acemq.schedule"
    assert naming.SCHEDULE_CONTROL_QUEUE == "acemq.schedule.due"


def test_the_queues() -> None:
    assert dead_letter_queue("orders") == "orders.dlq"
    assert parked_queue("orders") == "orders.parked"


@pytest.mark.parametrize(
    ("delay", "name"),
    [
        (0.5, "orders.retry.500ms"),
        (90, "orders.retry.90s"),
        (timedelta(minutes=5), "orders.retry.5m"),
        (timedelta(hours=2), "orders.retry.2h"),
        (60.0004, "orders.retry.1m"),
    ],
)
def test_the_rungs(delay: Any, name: str) -> None:
    assert retry_queue("orders", delay) == name


@pytest.mark.parametrize("delay", [0, 0.0004, 2**32 / 1000, timedelta(days=50), -1, "5m"])
def test_a_rung_that_no_broker_takes_is_refused(delay: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"acemq: .*rung"):
        retry_queue("orders", delay)


def test_the_longest_rung_is_the_longest_ttl() -> None:
    assert rung_label((2**32 - 1) / 1000) == "4294967295ms"


@pytest.mark.parametrize("wrong", ["", None, 5, b"orders", "x" * 256, "é" * 128, "a\nb", "a\rb"])
@pytest.mark.parametrize("name", [dead_letter_queue, parked_queue, lambda q: retry_queue(q, 60)])
def test_a_queue_without_a_usable_name_has_no_names_around_it(name: Any, wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^acemq: the "):
        name(wrong)


def test_a_name_may_not_grow_over_255_bytes() -> None:
    longest = "x" * 251
    assert len(dead_letter_queue(longest)) == 255
    with pytest.raises(ConfigurationError, match="over 255 bytes"):
        parked_queue(longest)


def test_a_lone_surrogate_is_no_name() -> None:
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        dead_letter_queue("\ud800")
