"""What no queue of that kind can have is refused where it is written down."""

from __future__ import annotations

from typing import Any

import pytest

from acemq_amqp import ConfigurationError, Topology
from acemq_amqp.errors import article, kind_of

STREAM = {"x-queue-type": "stream"}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"args": {"x-max-priority": 5}}, "quorum queue and cannot have x-max-priority"),
        ({"args": STREAM, "single_active": True}, "stream queue and cannot have x-single-active"),
        ({"args": STREAM, "dead_letter": True}, "stream queue and cannot have x-dead-letter-ex"),
        ({"args": {**STREAM, "x-message-ttl": 1}}, "max_age"),
        ({"args": {**STREAM, "x-max-priority": 1}}, "stream queue and cannot have x-max-priority"),
    ],
    ids=str,
)
def test_an_argument_of_another_kind_of_queue(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match="'orders'") as refused:
        Topology().queue("orders", quorum=None, **options)
    assert named in str(refused.value)


def test_a_classic_queue_has_priorities() -> None:
    queue = Topology().queue("orders", quorum=False, args={"x-max-priority": 5}).queues[0]
    assert queue.arguments == {"x-max-priority": 5}


@pytest.mark.parametrize(
    "option", ["durable", "auto_delete", "exclusive", "quorum", "dead_letter", "single_active"]
)
def test_a_queue_takes_true_and_false_only(option: str) -> None:
    wrong: dict[str, Any] = {option: "no"}
    with pytest.raises(ConfigurationError, match=f"{option} of the queue 'orders' is 'no'"):
        Topology().queue("orders", **wrong)


def test_exchanges_and_bindings_take_true_and_false_only() -> None:
    wrong: Any = "no"
    with pytest.raises(ConfigurationError, match="durable of the exchange 'events'"):
        Topology().exchange("events", durable=wrong)
    with pytest.raises(ConfigurationError, match="to_exchange of the binding of 'orders'"):
        Topology().binding("orders", "events", to_exchange=wrong)


@pytest.mark.parametrize(
    ("noun", "told"),
    [("queue", "a queue"), ("exchange", "an exchange"), ("Envelope", "an Envelope")],
)
def test_a_noun_has_its_article(noun: str, told: str) -> None:
    assert article(noun) == told


def test_a_value_is_told_by_its_kind() -> None:
    assert (kind_of(1), kind_of("x"), kind_of(None)) == ("an int", "a str", "a NoneType")
