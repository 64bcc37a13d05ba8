"""Connections that end, brokers that stop, and what survives them."""

from __future__ import annotations

import uuid
from typing import cast

import pytest

from acemq_amqp.address import parse_address
from acemq_amqp.core.ports import Confirmed, LinkEvents, Outgoing, Work
from acemq_amqp.errors import CannotConnect, ConfigurationError, ConnectionLost
from acemq_amqp.properties import Properties
from acemq_amqp.transports.memory import (
    MemoryBroker,
    MemoryTransport,
    TestClock,
    forget_memory_broker,
    memory_broker,
)
from tests.transports.memory.harness import Client, FakeWork, bodies, drive


def test_one_name_is_one_broker(client: Client, broker: MemoryBroker) -> None:
    assert memory_broker(broker.name) is broker
    with pytest.raises(ConfigurationError, match="another clock"):
        memory_broker(broker.name, clock=TestClock())
    other = Client(broker, "second")
    client.queue("q")
    other.publish("q", "m")
    assert client.take("q") == "m"
    assert broker.connections() == ("test", "second")
    client.close()
    assert broker.connections() == ("second",)
    assert client.lost == [], "one's own close is no loss"


def test_a_forgotten_broker_begins_anew(broker: MemoryBroker) -> None:
    client = Client(broker)
    client.queue("q")
    forget_memory_broker(broker.name)
    assert len(client.lost) == 1
    assert memory_broker(broker.name) is not broker
    assert memory_broker(broker.name).queues() == ()


def test_killed_connections(client: Client, broker: MemoryBroker) -> None:
    client.queue("q")
    consuming = client.consume("q", 2)
    for text in "123":
        client.publish("q", text)
    assert broker.kill_connections("moving house") == 1
    (error,) = client.lost
    assert isinstance(error, ConnectionLost) and error.code == 320
    assert "moving house" in str(error)
    assert not consuming.subscription.live and not consuming.ended
    assert not consuming.ack()
    assert bodies(broker, "q") == ["1", "2", "3"]
    with pytest.raises(ConnectionLost):
        client.queue("q")
    assert Client(broker).take("q") == "1"


def test_what_a_lost_connection_held_visits_none_that_is_lost_as_well(
    broker: MemoryBroker,
) -> None:
    clients = [Client(broker) for _ in range(2)]
    clients[0].queue("q", {"x-queue-type": "quorum"})
    consuming = [client.consume("q") for client in clients for _ in range(2)]
    for n in range(8):
        clients[0].publish("q", str(n))
    broker.kill_connections()
    assert [len(each.arrivals) for each in consuming] == [2, 2, 2, 2]
    again = Client(broker).consume("q")
    assert {a.properties.headers.get("x-delivery-count") for a in again.arrivals} == {1}


def test_a_stopped_broker_takes_nobody(client: Client, broker: MemoryBroker) -> None:
    broker.stop()
    assert [error.code for error in client.lost] == [320]
    with pytest.raises(CannotConnect, match="stopped"):
        Client(broker)
    broker.start()
    Client(broker)


def test_what_survives_a_restart(client: Client, broker: MemoryBroker) -> None:
    client.exchange("lasting", "topic")
    client.exchange("passing", "topic", durable=False)
    client.queue("lasting")
    client.queue("quorum", {"x-queue-type": "quorum"})
    client.queue("stream", {"x-queue-type": "stream"})
    client.queue("transient", durable=False)
    client.queue("mine", exclusive=True)
    client.queue("auto", auto_delete=True)
    client.consume("auto")
    for queue in ("lasting", "quorum", "stream", "transient"):
        client.bind(queue, "lasting", "#")
    client.bind("lasting", "passing", "#")
    client.publish("k", "held", exchange="lasting")
    client.publish("k", "passing", exchange="lasting", delivery_mode=1)
    client.publish("k", "ready", exchange="lasting")
    client.pull("lasting")
    broker.stop()
    broker.start()
    client = Client(broker)
    assert set(broker.queues()) == {"lasting", "quorum", "stream"}
    assert bodies(broker, "lasting") == ["held", "ready"]
    assert [m.redelivered for m in broker.messages("lasting")] == [True, False]
    assert bodies(broker, "quorum") == bodies(broker, "stream") == ["held", "passing", "ready"]
    assert not drive(client.link.look_up_exchange("passing", None))
    assert client.publish("k", "new", exchange="lasting") == Confirmed()
    assert bodies(broker, "lasting") == ["held", "ready", "new"]


def test_a_message_without_a_delivery_mode_is_transient(
    client: Client, broker: MemoryBroker
) -> None:
    client.queue("q")
    client.link.submit(Outgoing("", "q", "m", Properties().encode(), b""))
    broker.stop()
    broker.start()
    assert bodies(broker, "q") == []


def test_time_passes_while_a_broker_is_down(
    client: Client, broker: MemoryBroker, clock: TestClock
) -> None:
    client.queue("q", {"x-message-ttl": 1000})
    client.publish("q", "m")
    broker.stop()
    clock.advance(2)
    broker.start()
    assert bodies(broker, "q") == []


def test_other_addresses_are_refused() -> None:
    transport = MemoryTransport(cast(Work, FakeWork()))
    events = LinkEvents(lambda error: None, lambda reason: None, lambda: None)
    with pytest.raises(ConfigurationError, match="memory://NAME"):
        drive(
            transport.connect(
                parse_address("amqp://localhost"), name="", events=events, deadline=None
            )
        )


def test_updating_a_secret_changes_nothing(client: Client) -> None:
    drive(client.link.update_secret(uuid.uuid4().hex, None))
    client.queue("q")
