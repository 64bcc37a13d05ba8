"""What may be declared, what differs from what is there, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from acemq_amqp.errors import (
    AccessRefused,
    BrokerError,
    ConfigurationError,
    DeclarationMismatch,
)
from acemq_amqp.transports.memory import MemoryBroker
from tests.transports.memory.harness import Client, drive

QUORUM = {"x-queue-type": "quorum"}
STREAM = {"x-queue-type": "stream"}


# The words are those of RabbitMQ 3.10.8.
@pytest.mark.parametrize(
    ("first", "again", "words"),
    [
        (QUORUM, {}, "'x-queue-type' for queue 'q' in vhost '/': received none but current is the"
         " value 'quorum' of type 'longstr'"),
        ({"x-message-ttl": 1000}, {"x-message-ttl": 2000},
         "'x-message-ttl' for queue 'q' in vhost '/': received '2000' but current is '1000'"),
        ({"x-message-ttl": 1000}, {},
         "'x-message-ttl' for queue 'q' in vhost '/': received none but current is the value"
         " '1000' of type 'signedint'"),
        ({}, {"x-message-ttl": 1000},
         "'x-message-ttl' for queue 'q' in vhost '/': received the value '1000' of type"
         " 'signedint' but current is none"),
        ({"x-single-active-consumer": False}, {},
         "'x-single-active-consumer' for queue 'q' in vhost '/': received none but current is the"
         " value 'false' of type 'bool'"),
        ({**QUORUM, "x-delivery-limit": 3}, QUORUM, "'x-delivery-limit'"),
        ({**STREAM, "x-max-age": "1h"}, STREAM, "'x-max-age'"),
        ({"x-queue-mode": "lazy"}, {}, "'x-queue-mode'"),
    ],
)  # fmt: skip
def test_an_unequal_queue_names_the_argument_and_both_values(
    client: Client, first: dict[str, Any], again: dict[str, Any], words: str
) -> None:
    client.queue("q", first)
    client.queue("q", first)
    with pytest.raises(DeclarationMismatch) as caught:
        client.queue("q", again)
    assert words in str(caught.value) and caught.value.code == 406


def test_classic_is_what_a_queue_is_when_nobody_says(client: Client) -> None:
    client.queue("a")
    client.queue("a", {"x-queue-type": "classic"})
    client.queue("b", {"x-queue-type": "classic"})
    client.queue("b")


@pytest.mark.parametrize("flag", ["durable", "auto_delete"])
def test_unequal_flags(client: Client, flag: str) -> None:
    client.queue("q", durable=False)
    client.exchange("x", "direct", durable=False)
    unequal: dict[str, Any] = {"durable": False, flag: True}
    with pytest.raises(DeclarationMismatch, match=f"'{flag}'.*'true' but current is 'false'"):
        client.queue("q", **unequal)
    with pytest.raises(DeclarationMismatch, match=f"'{flag}'.*'true' but current is 'false'"):
        client.exchange("x", "direct", **unequal)


def test_an_unequal_exchange(client: Client) -> None:
    client.exchange("x", "direct", arguments={"alternate-exchange": "y"})
    with pytest.raises(DeclarationMismatch, match=r"'type'.*'topic' but current is 'direct'"):
        client.exchange("x", "topic")
    with pytest.raises(DeclarationMismatch, match="'alternate-exchange'"):
        client.exchange("x", "direct")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x-message-ttl": -1}, "{value_negative,-1}"),
        ({"x-message-ttl": "5"}, "expected integer, got longstr"),
        ({"x-message-ttl": True}, "expected integer, got bool"),
        ({"x-message-ttl": 2**40}, "value_too_large"),
        ({"x-expires": 0}, "{value_zero,0}"),
        ({"x-max-priority": 256}, "{max_value_exceeded,256}"),
        ({"x-overflow": "burst"}, "invalid_overflow"),
        ({"x-dead-letter-routing-key": "k"}, "routing_key_but_no_dlx_defined"),
        ({"x-single-active-consumer": 1}, "{unacceptable_type,signedint}"),
        ({"x-queue-type": "tree"}, "unsupported queue type 'tree'"),
        ({"x-queue-type": 1}, "{unacceptable_type,signedint}"),
        ({"x-delivery-limit": 3}, "of queue type rabbit_classic_queue"),
        ({"x-max-age": "1h"}, "of queue type rabbit_classic_queue"),
        ({**QUORUM, "x-max-priority": 5}, "of queue type rabbit_quorum_queue"),
        ({**STREAM, "x-message-ttl": 5}, "of queue type rabbit_stream_queue"),
        ({**STREAM, "x-single-active-consumer": True}, "of queue type rabbit_stream_queue"),
        ({**STREAM, "x-dead-letter-exchange": "x"}, "of queue type rabbit_stream_queue"),
        ({**STREAM, "x-max-age": "1x"}, "invalid_max_age"),
    ],
)
def test_what_rabbitmq_refuses_is_refused_in_its_words(
    client: Client, broker: MemoryBroker, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(BrokerError) as caught:
        client.queue("q", arguments)
    assert words in str(caught.value) and caught.value.code == 406
    assert broker.queues() == ()


@pytest.mark.parametrize("type_", [QUORUM, STREAM])
@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"durable": False}, "non-durable"),
        ({"auto_delete": True}, "auto-delete"),
        ({"exclusive": True}, "exclusive-owner"),
    ],
)
def test_replicated_queues_are_lasting(
    client: Client, type_: dict[str, Any], options: dict[str, Any], name: str
) -> None:
    with pytest.raises(BrokerError, match=name) as caught:
        client.queue("q", type_, **options)
    assert caught.value.code == 406


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"x-unheard-of": 1}, "x-unheard-of"),
        ({"note": "mine"}, "note"),
        ({**QUORUM, "x-overflow": "reject-publish-dlx"}, "x-overflow='reject-publish-dlx'"),
        ({**QUORUM, "x-dead-letter-strategy": "at-least-once"}, "at-least-once"),
    ],
)
def test_what_only_this_broker_cannot_do_is_refused_by_name(
    client: Client, broker: MemoryBroker, arguments: dict[str, Any], name: str
) -> None:
    with pytest.raises(ConfigurationError, match=name):
        client.queue("q", arguments)
    assert broker.queues() == () and not client.lost


def test_exchanges_that_this_broker_cannot_do(client: Client) -> None:
    with pytest.raises(ConfigurationError, match="x-delayed-message"):
        client.exchange("x", "x-delayed-message")
    with pytest.raises(ConfigurationError, match="hash-header"):
        client.exchange("x", "direct", arguments={"hash-header": "a"})
    assert not client.lost


def test_an_exclusive_queue_is_its_connection_s(client: Client, broker: MemoryBroker) -> None:
    client.queue("q", exclusive=True, durable=False)
    client.queue("q", exclusive=True, durable=False)
    other = Client(broker)
    for attempt in (
        lambda: other.queue("q", durable=False),
        lambda: other.queue("q", exclusive=True, durable=False),
        lambda: other.bind("q", "amq.topic"),
        lambda: other.pull("q"),
        lambda: other.consume("q"),
        lambda: drive(other.link.look_up_queue("q", None)),
        lambda: drive(other.link.purge_queue("q", None)),
        lambda: drive(other.link.delete_queue("q", None)),
    ):
        with pytest.raises(AccessRefused, match="RESOURCE_LOCKED") as caught:
            attempt()
        assert caught.value.code == 405
    assert other.publish("q", "anybody may publish").routed  # type: ignore[union-attr]
    assert client.take("q") == "anybody may publish"
    client.close()
    assert broker.queues() == ()


def test_exclusive_and_not_is_a_difference(client: Client) -> None:
    client.queue("q", durable=False)
    with pytest.raises(AccessRefused, match="RESOURCE_LOCKED"):
        client.queue("q", exclusive=True, durable=False)
