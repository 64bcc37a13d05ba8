"""What a dead letter says of its deaths, and where it may not go."""

from __future__ import annotations

from typing import Any

import pytest

from acemq_amqp.core.ports import Outgoing
from acemq_amqp.fieldtable import HeaderTable
from acemq_amqp.properties import Properties
from acemq_amqp.transports.memory import MemoryBroker, TestClock
from tests.transports.memory.harness import Client, bodies, headers, moment


def dead_letter_to(key: str, **more: Any) -> dict[str, Any]:
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": key, **more}


def test_the_first_death(client: Client, broker: MemoryBroker, clock: TestClock) -> None:
    client.queue("dead")
    client.queue("q", dead_letter_to("dead", **{"x-message-ttl": 1000}))
    client.bind("q", "amq.direct", "k")
    died = moment(broker)
    client.publish(
        "k",
        "m",
        exchange="amq.direct",
        headers={"CC": ["k2"], "BCC": ["k3"], "a": 1},
        expiration="50",
        message_id="kept",
    )
    clock.advance(2)
    assert headers(broker, "dead") == {
        "a": 1,
        "x-death": [
            {
                "count": 1,
                "reason": "expired",
                "queue": "q",
                "time": died,
                "exchange": "amq.direct",
                "routing-keys": ["k", "k2"],
                "original-expiration": "50",
            }
        ],
        "x-first-death-reason": "expired",
        "x-first-death-queue": "q",
        "x-first-death-exchange": "amq.direct",
    }
    (message,) = broker.messages("dead")
    assert (message.exchange, message.routing_key, message.redelivered) == ("", "dead", False)
    assert message.properties.expiration is None
    clock.advance(3600)
    assert bodies(broker, "dead") == ["m"]


def test_without_a_key_of_its_own_it_keeps_the_message_s(
    client: Client, broker: MemoryBroker, clock: TestClock
) -> None:
    client.exchange("dlx", "direct")
    for queue, key in (("dead", "k"), ("copy", "k2"), ("blind", "k3")):
        client.queue(queue)
        client.bind(queue, "dlx", key)
    client.queue("q", {"x-dead-letter-exchange": "dlx", "x-message-ttl": 1000})
    client.bind("q", "amq.direct", "k")
    client.publish("k", exchange="amq.direct", headers={"CC": ["k2"], "BCC": ["k3"]})
    clock.advance(1)
    for queue in ("dead", "copy", "blind"):
        (message,) = broker.messages(queue)
        assert (message.exchange, message.routing_key) == ("dlx", "k")
        assert message.properties.headers.get("CC") == ["k2"]
        assert message.properties.headers.get("BCC") is None


def test_deaths_are_counted_by_queue_and_reason_latest_first(
    client: Client, broker: MemoryBroker, clock: TestClock
) -> None:
    client.queue("work", dead_letter_to("wait"))
    client.queue("wait", dead_letter_to("work", **{"x-message-ttl": 1000}))
    client.publish("work", "m")
    consuming = client.consume("work")
    for _ in range(3):
        consuming.reject()
        clock.advance(1)
    deaths = consuming.arrivals[-1].properties.headers.get("x-death")
    assert [(d["queue"], d["reason"], d["count"]) for d in deaths] == [
        ("wait", "expired", 3),
        ("work", "rejected", 3),
    ]
    assert consuming.arrivals[-1].properties.headers.get("x-first-death-queue") == "work"


def test_a_death_with_another_reason_is_another(
    client: Client, broker: MemoryBroker, clock: TestClock
) -> None:
    client.queue("dead")
    client.queue("q", dead_letter_to("dead", **{"x-max-length": 0}))
    death = {"queue": "q", "reason": "rejected", "count": 7}
    client.publish("q", headers={"x-death": [death]})
    written = headers(broker, "dead")
    assert [(d["reason"], d["count"]) for d in written["x-death"]] == [
        ("maxlen", 1),
        ("rejected", 7),
    ]
    assert "x-first-death-reason" not in written


@pytest.mark.parametrize("nonsense", ["text", 1, None, {"queue": "q"}])
def test_a_header_that_is_no_list_of_deaths_is_discarded(
    client: Client, broker: MemoryBroker, nonsense: object
) -> None:
    client.queue("dead")
    client.queue("q", dead_letter_to("dead", **{"x-max-length": 0}))
    client.publish("q", headers={"x-death": nonsense})
    assert [d["reason"] for d in headers(broker, "dead")["x-death"]] == ["maxlen"]


def test_a_circle_without_a_rejection_ends(
    client: Client, broker: MemoryBroker, clock: TestClock
) -> None:
    client.queue("a", dead_letter_to("b", **{"x-message-ttl": 1000}))
    client.queue("b", dead_letter_to("a", **{"x-message-ttl": 1000}))
    client.publish("a", "m")
    clock.advance(1)
    assert bodies(broker, "b") == ["m"]
    clock.advance(1)
    assert bodies(broker, "a") == bodies(broker, "b") == []


def test_a_full_queue_that_dead_letters_to_itself_drops(
    client: Client, broker: MemoryBroker
) -> None:
    client.queue("q", dead_letter_to("q", **{"x-max-length": 1}))
    client.publish("q", "1")
    client.publish("q", "2")
    assert bodies(broker, "q") == ["2"]


@pytest.mark.parametrize("exchange", ["", "missing"])
def test_a_dead_letter_to_nowhere_is_dropped(
    client: Client, broker: MemoryBroker, exchange: str
) -> None:
    arguments = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "nowhere"}
    client.queue("q", {"x-max-length": 0, **arguments})
    client.publish("q")
    assert broker.queue_depth("q") == 0


def test_header_bytes_that_nobody_reads_travel_on_as_they_are(
    client: Client, broker: MemoryBroker
) -> None:
    odd = b"\x01a" + b"s\x00\x07"  # a 16-bit int, which our codec reads and never writes

    client.queue("dead")
    client.queue("q", dead_letter_to("dead", **{"x-max-length": 0}))
    client.link.submit(Outgoing("", "q", "m", Properties(headers=HeaderTable(odd)).encode(), b""))
    (message,) = broker.messages("dead")
    assert message.properties.headers.raw.startswith(odd)
