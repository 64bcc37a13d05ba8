"""Who gets what, and how much of it."""

from __future__ import annotations

import pytest

from acemq_amqp.errors import AccessRefused, ConfigurationError, DeclarationMismatch, NotFound
from acemq_amqp.transports.memory import MemoryBroker, TestClock
from tests.transports.memory.harness import Client, bodies


def fill(client: Client, queue: str, texts: str) -> None:
    for text in texts:
        client.publish(queue, text)


def test_prefetch_is_what_may_be_unsettled(client: Client, broker: MemoryBroker) -> None:
    client.queue("q")
    fill(client, "q", "12345")
    consuming = client.consume("q", prefetch=2)
    assert consuming.bodies == ["1", "2"]
    assert consuming.ack(1)
    assert consuming.bodies == ["1", "2", "3"]
    assert consuming.requeue(0)
    assert consuming.bodies == ["1", "2", "3", "1"]
    assert consuming.arrivals[-1].redelivered
    assert bodies(broker, "q") == ["4", "5"]


def test_an_arrival_says_where_it_came_from(client: Client) -> None:
    client.queue("q")
    client.bind("q", "amq.topic", "a.*")
    consuming = client.consume("q")
    client.publish("a.b", "m", exchange="amq.topic", headers={"h": 1}, type="t", message_id="i")
    (arrival,) = consuming.arrivals
    assert (arrival.exchange, arrival.routing_key, arrival.redelivered) == (
        "amq.topic",
        "a.b",
        False,
    )
    assert (arrival.properties.type, arrival.properties.message_id) == ("t", "i")
    assert arrival.properties.headers.get("h") == 1
    assert arrival.settling is consuming.subscription


def test_consumers_take_turns(client: Client) -> None:
    client.queue("q")
    one, two, busy = (client.consume("q", prefetch) for prefetch in (3, 3, 1))
    fill(client, "q", "123456789")
    assert [one.bodies, two.bodies, busy.bodies] == [["1", "4", "6"], ["2", "5", "7"], ["3"]]


def test_higher_priority_consumers_first(client: Client) -> None:
    client.queue("q")
    low = client.consume("q")
    high = client.consume("q", 2, arguments={"x-priority": 10})
    fill(client, "q", "1234")
    assert (high.bodies, low.bodies) == (["1", "2"], ["3", "4"])


def test_closing_gives_back_in_order(client: Client, broker: MemoryBroker) -> None:
    client.queue("q")
    fill(client, "q", "1234")
    consuming = client.consume("q", prefetch=3)
    consuming.ack(1)
    consuming.close()
    assert bodies(broker, "q") == ["1", "3", "4"]
    assert [m.redelivered for m in broker.messages("q")] == [True, True, True]
    assert not consuming.subscription.live
    assert not consuming.ack(0)
    assert broker.consumers("q") == ()
    assert not client.link.channels, "nothing is kept of a channel that is closed"


def test_after_a_cancel_what_came_can_still_be_settled(
    client: Client, broker: MemoryBroker
) -> None:
    client.queue("q")
    consuming = client.consume("q", prefetch=2)
    fill(client, "q", "123")
    consuming.cancel()
    assert consuming.subscription.live and consuming.subscription.unsettled == 2
    assert consuming.ack(0) and consuming.requeue(1)
    assert consuming.subscription.unsettled == 0
    assert consuming.bodies == ["1", "2"]
    assert bodies(broker, "q") == ["2", "3"]


def test_a_single_active_consumer_has_successors(client: Client) -> None:
    client.queue("q", {"x-single-active-consumer": True})
    first, second, third = (client.consume("q", 2) for _ in range(3))
    fill(client, "q", "1234")
    assert (first.bodies, second.bodies, third.bodies) == (["1", "2"], [], [])
    first.close()
    assert (second.bodies, third.bodies) == (["1", "2"], []), "the successor starts in order"
    second.cancel()
    assert third.bodies == ["3", "4"], "cancelling first is out of order, as on RabbitMQ"


def test_an_exclusive_consumer_is_alone(client: Client) -> None:
    client.queue("q")
    alone = client.consume("q", exclusive=True)
    for exclusive in (False, True):
        with pytest.raises(AccessRefused, match="exclusive use"):
            client.consume("q", exclusive=exclusive)
    alone.close()
    client.consume("q")
    with pytest.raises(AccessRefused, match="exclusive use"):
        client.consume("q", exclusive=True)


def test_an_exclusive_consumer_and_a_single_active_one_exclude_each_other(client: Client) -> None:
    client.queue("q", {"x-single-active-consumer": True})
    with pytest.raises(AccessRefused):
        client.consume("q", exclusive=True)


def test_consuming_from_nowhere(client: Client) -> None:
    with pytest.raises(NotFound, match="'q'"):
        client.consume("q")
    with pytest.raises(NotFound, match="'q'"):
        client.pull("q")


@pytest.mark.parametrize(
    ("argument", "value", "error"),
    [
        ("x-stream-offset", "first", DeclarationMismatch),
        ("x-priority", "high", DeclarationMismatch),
        ("x-cancel-on-ha-failover", True, ConfigurationError),
        ("x-new", 1, ConfigurationError),
    ],
)
def test_arguments_that_are_not_taken_are_named(
    client: Client, argument: str, value: object, error: type[Exception]
) -> None:
    client.queue("q")
    with pytest.raises(error, match=argument):
        client.consume("q", arguments={argument: value})
    assert client.pull("q") is None, "the connection goes on"


def test_the_broker_may_cancel_a_consumer(client: Client, broker: MemoryBroker) -> None:
    client.queue("q")
    consuming = client.consume("q", 1)
    fill(client, "q", "12")
    broker.cancel_consumers("q")
    (error,) = consuming.ended
    assert error.code == 0 and "leader moved" in str(error)
    assert not consuming.ack()
    assert bodies(broker, "q") == ["1", "2"]
    again = client.consume("q")
    assert again.bodies == ["1", "2"]


# ---------------------------------------------------------------- quorum queues


def test_a_quorum_queue_counts_what_comes_back(client: Client) -> None:
    client.queue("q", {"x-queue-type": "quorum"})
    client.publish("q", "m")
    consuming = client.consume("q")
    for _ in range(3):
        consuming.requeue()
    counts = [a.properties.headers.get("x-delivery-count") for a in consuming.arrivals]
    assert counts == [None, 1, 2, 3]
    assert [a.redelivered for a in consuming.arrivals] == [False, True, True, True]


@pytest.mark.parametrize(
    ("more", "order"),
    [({"x-delivery-limit": 9}, ["2", "0", "3", "4"]), ({}, ["4", "2", "0", "3"])],
)
def test_a_quorum_queue_puts_back_to_the_front_with_a_limit_and_to_the_end_without(
    client: Client, broker: MemoryBroker, more: dict[str, object], order: list[str]
) -> None:
    """As RabbitMQ 3.10.8 does."""
    client.queue("q", {"x-queue-type": "quorum", **more})
    fill(client, "q", "01234")
    pulled = [client.pull("q") for _ in range(4)]
    for index in (2, 0, 3):
        arrival = pulled[index]
        assert arrival is not None
        arrival.settling.requeue(arrival.tag)
    assert bodies(broker, "q") == order


def test_a_channel_that_closes_puts_back_to_the_front(client: Client, broker: MemoryBroker) -> None:
    client.queue("q", {"x-queue-type": "quorum"})
    fill(client, "q", "012345")
    consuming = client.consume("q", prefetch=4)
    consuming.requeue(2)
    consuming.close()
    assert bodies(broker, "q") == ["0", "1", "3", "4", "5", "2"]


@pytest.mark.parametrize("own", [True, False])
def test_past_the_delivery_limit_a_message_is_dead(
    client: Client, broker: MemoryBroker, own: bool
) -> None:
    client.queue("dead")
    arguments: dict[str, object] = {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    if own:
        arguments["x-delivery-limit"] = 2
    else:
        broker.delivery_limit = 2
    client.queue("q", arguments)
    client.publish("q", "m")
    consuming = client.consume("q")
    while bodies(broker, "dead") == []:
        consuming.requeue()
    assert consuming.bodies == ["m"] * 3
    (message,) = broker.messages("dead")
    (death,) = message.properties.headers.get("x-death")
    assert (death["reason"], death["count"]) == ("delivery_limit", 1)
    assert "x-delivery-count" not in message.properties.headers.values()


def test_without_a_limit_a_message_comes_back_for_ever(client: Client, clock: TestClock) -> None:
    client.queue("q", {"x-queue-type": "quorum"})
    client.publish("q", "m")
    consuming = client.consume("q")
    for _ in range(100):
        consuming.requeue()
    assert len(consuming.arrivals) == 101


def test_a_count_that_came_with_the_message_is_seen_on_its_first_delivery(client: Client) -> None:
    client.queue("q", {"x-queue-type": "quorum"})
    client.publish("q", "m", headers={"x-delivery-count": 7})
    consuming = client.consume("q")
    consuming.requeue()
    counts = [a.properties.headers.get("x-delivery-count") for a in consuming.arrivals]
    assert counts == [7, 1]
