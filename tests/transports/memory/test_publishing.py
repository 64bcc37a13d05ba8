"""Outcomes, and the alarm."""

from __future__ import annotations

from typing import Any

import pytest

from acemq_amqp.core.ports import Confirmed, Outcome, Outgoing, Refused, Unsent
from acemq_amqp.properties import Properties
from acemq_amqp.transports.memory import MemoryBroker
from tests.transports.memory.harness import Client, bodies, drive


def test_outcomes(client: Client) -> None:
    client.queue("q")
    assert client.publish("q") == Confirmed()
    assert client.publish("nobody") == Confirmed(routed=False, reason="NO_ROUTE")
    outcome = client.publish("q", exchange="missing")
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.stored) == (404, "no") and "missing" in outcome.reason


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"user_id": "somebody"}, "user_id"),
        ({"expiration": "abc"}, "invalid expiration 'abc'"),
        ({"expiration": ""}, "invalid expiration ''"),
        ({"expiration": "1.5"}, "invalid expiration '1.5'"),
        ({"expiration": "-1"}, "value_negative"),
        ({"expiration": str(2**40)}, "value_too_large"),
        ({"delivery_mode": 7}, "delivery_mode"),
    ],
)
def test_what_would_close_a_channel_is_refused(
    client: Client, broker: MemoryBroker, properties: dict[str, Any], words: str
) -> None:
    client.queue("q")
    outcome = client.publish("q", **properties)
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.stored) == (406, "no") and words in outcome.reason
    assert broker.queue_depth("q") == 0
    assert client.publish("q") == Confirmed()


def test_one_s_own_user_id(client: Client) -> None:
    client.queue("q")
    assert client.link.broker.login == "guest"
    assert client.publish("q", user_id="guest") == Confirmed()


def test_large_messages(client: Client, broker: MemoryBroker) -> None:
    assert client.link.broker.version >= (4,) and broker.max_message_size == 16 * 1024 * 1024
    broker.max_message_size = 10
    client.queue("q")
    assert client.publish("q", b"x" * 10) == Confirmed()
    outcome = client.publish("q", b"x" * 11)
    assert isinstance(outcome, Refused) and outcome.code == 406
    assert "larger than configured max size 10" in outcome.reason


def test_outcomes_are_told_once_too(client: Client) -> None:
    told: list[Outcome] = []
    outgoing = Outgoing("", "nobody", "m", Properties().encode(), b"")
    pending = client.link.submit(outgoing, told.append)
    assert told == [Confirmed(False, "NO_ROUTE")] == [drive(pending.outcome(None))]


# ---------------------------------------------------------------- the alarm


def test_what_is_published_under_an_alarm_waits(client: Client, broker: MemoryBroker) -> None:
    client.queue("q")
    broker.block("disk is full")
    assert client.alarms == ["disk is full"] and client.link.blocked_reason == "disk is full"
    pending = [client.submit("q", str(n)) for n in range(3)]
    assert bodies(broker, "q") == []
    broker.unblock()
    assert client.alarms == ["disk is full", None] and client.link.blocked_reason is None
    assert bodies(broker, "q") == ["0", "1", "2"]
    assert [drive(each.outcome(None)) for each in pending] == [Confirmed()] * 3


def test_at_its_deadline_it_is_withdrawn_for_good(client: Client, broker: MemoryBroker) -> None:
    client.queue("q")
    broker.block("disk is full")
    told: list[Outcome] = []
    outgoing = Outgoing("", "q", "m", Properties().encode(), b"late")
    pending = client.link.submit(outgoing, told.append)
    in_time = client.submit("q", "in time")
    assert drive(pending.outcome(0.0)) == Unsent("disk is full", paused=True)
    broker.unblock()
    assert bodies(broker, "q") == ["in time"]
    assert drive(pending.outcome(0.0)) == Unsent("disk is full", paused=True)
    assert told == [Unsent("disk is full", paused=True)]
    assert drive(in_time.outcome(0.0)) == Confirmed()


def test_an_alarm_stops_neither_consumers_nor_acks_nor_declarations(
    client: Client, broker: MemoryBroker
) -> None:
    client.queue("q")
    for text in "123":
        client.publish("q", text)
    broker.block()
    consuming = client.consume("q", 1)
    assert consuming.ack() and consuming.ack()
    assert consuming.bodies == ["1", "2", "3"]
    client.queue("other")


def test_a_connection_made_under_an_alarm_hears_of_it_when_it_publishes(
    broker: MemoryBroker,
) -> None:
    broker.block("disk is full")
    client, silent = Client(broker), Client(broker)
    assert client.alarms == []
    client.submit("q")
    client.submit("q")
    assert client.alarms == ["disk is full"]
    broker.unblock()
    assert client.alarms == ["disk is full", None]
    assert silent.alarms == []


@pytest.mark.parametrize("how", ["close", "kill"])
def test_what_waits_when_its_connection_goes_is_unsent(
    client: Client, broker: MemoryBroker, how: str
) -> None:
    client.queue("q")
    broker.block("disk is full")
    pending = client.submit("q", "m")
    if how == "close":
        client.close()
    else:
        broker.kill_connections()
    broker.unblock()
    assert drive(pending.outcome(None)) == Unsent("disk is full", paused=True)
    assert bodies(broker, "q") == []


def test_publishing_on_a_connection_that_is_gone(client: Client, broker: MemoryBroker) -> None:
    client.queue("q")
    client.close()
    assert isinstance(client.publish("q"), Unsent)
    assert broker.queue_depth("q") == 0
