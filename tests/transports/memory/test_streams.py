"""Streams: read as often as one likes, from where one likes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from acemq_amqp.errors import BrokerError, ConnectionLost, DeclarationMismatch
from acemq_amqp.transports.memory import MemoryBroker, TestClock
from tests.transports.memory.harness import Client, Consuming, bodies, drive

STREAM = {"x-queue-type": "stream"}


@pytest.fixture
def stream(client: Client, clock: TestClock) -> str:
    """Five messages, ten seconds between them."""
    client.queue("s", STREAM)
    for n in range(5):
        if n:
            clock.advance(10)
        client.publish("s", str(n))
    return "s"


def offsets(consuming: Consuming) -> list[int]:
    return [a.properties.headers.get("x-stream-offset") for a in consuming.arrivals]


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(1_700_000_000 + seconds, UTC)


@pytest.mark.parametrize(
    ("offset", "begins"),
    [
        ("first", 0),
        ("last", 4),
        ("next", 5),
        (None, 5),
        (0, 0),
        (3, 3),
        (5, 5),
        (-1, 0),
        (at(0), 0),
        (at(10), 1),
        (at(10.5), 1),
        (at(11), 2),
        (at(-500), 0),
        (at(500), 5),
        ("20s", 2),
        ("1h", 0),
        ("1s", 4),
    ],
)
def test_where_reading_begins(client: Client, stream: str, offset: Any, begins: int) -> None:
    arguments = {} if offset is None else {"x-stream-offset": offset}
    consuming = client.consume(stream, arguments=arguments)
    client.publish(stream, "5")
    assert offsets(consuming) == list(range(begins, 6))
    assert consuming.bodies == [str(n) for n in range(begins, 6)]
    assert not any(arrival.redelivered for arrival in consuming.arrivals)


def test_an_offset_past_the_end_waits(client: Client, stream: str) -> None:
    consuming = client.consume(stream, arguments={"x-stream-offset": 7})
    for n in range(5, 9):
        client.publish(stream, str(n))
    assert offsets(consuming) == [7, 8]


def test_an_ack_makes_room_and_removes_nothing(
    client: Client, broker: MemoryBroker, stream: str
) -> None:
    first = {"x-stream-offset": "first"}
    consuming = client.consume(stream, 2, arguments=first)
    assert offsets(consuming) == [0, 1]
    assert consuming.ack(1)
    assert offsets(consuming) == [0, 1, 2]
    consuming.close()
    assert broker.queue_depth(stream) == 5
    assert offsets(client.consume(stream, arguments=first)) == [0, 1, 2, 3, 4]


def test_readers_do_not_share(client: Client, stream: str) -> None:
    one, two = (client.consume(stream, arguments={"x-stream-offset": 3}) for _ in range(2))
    assert offsets(one) == offsets(two) == [3, 4]


@pytest.mark.parametrize("offset", ["4", "begin", "", True, 1.5])
def test_an_offset_that_a_broker_chokes_on(client: Client, stream: str, offset: object) -> None:
    with pytest.raises(BrokerError, match="x-stream-offset"):
        client.consume(stream, arguments={"x-stream-offset": offset})


def test_what_costs_the_connection_on_a_broker_costs_it_here(
    client: Client, broker: MemoryBroker, stream: str
) -> None:
    with pytest.raises(ConnectionLost, match=r"basic\.get") as caught:
        client.pull(stream)
    assert caught.value.code == 540
    assert [type(error) for error in client.lost] == [ConnectionLost]
    with pytest.raises(ConnectionLost):
        client.pull(stream)
    other = Client(broker)
    with pytest.raises(ConnectionLost, match=r"queue\.purge"):
        drive(other.link.purge_queue(stream, None))


def test_nothing_is_given_back_to_a_stream(
    client: Client, broker: MemoryBroker, stream: str
) -> None:
    consuming = client.consume(stream, arguments={"x-stream-offset": "first"})
    assert not consuming.requeue(0)
    (error,) = client.lost
    assert error.code == 540 and "basic.nack" in str(error)
    assert broker.unsettled(stream) == 0


def test_a_stream_wants_a_prefetch(client: Client, stream: str) -> None:
    with pytest.raises(DeclarationMismatch, match="prefetch"):
        client.consume(stream, prefetch=0)


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({"x-max-length-bytes": 8}, "234567"),
        ({"x-max-age": "25s"}, "4567"),
        ({"x-max-age": "1h", "x-max-length-bytes": 100}, "01234567"),
    ],
)
def test_retention_drops_whole_segments(
    client: Client, broker: MemoryBroker, clock: TestClock, limits: dict[str, Any], kept: str
) -> None:
    client.queue("s", {**STREAM, "x-stream-max-segment-size-bytes": 4, **limits})
    for n in range(8):
        client.publish("s", f"{n} ")
        clock.advance(10)
    assert [body.strip() for body in bodies(broker, "s")] == list(kept)
    consuming = client.consume("s", arguments={"x-stream-offset": 1})
    assert offsets(consuming) == [int(n) for n in kept if int(n) >= 1]


def test_a_reader_that_retention_overtakes_goes_on_with_the_oldest(client: Client) -> None:
    client.queue("s", {**STREAM, "x-stream-max-segment-size-bytes": 1, "x-max-length-bytes": 2})
    consuming = client.consume("s", 1)
    for n in range(6):
        client.publish("s", str(n))
    assert consuming.ack()
    assert offsets(consuming) == [0, 3]


def test_dead_letters_may_go_to_a_stream(client: Client, broker: MemoryBroker) -> None:
    client.queue("s", STREAM)
    client.queue(
        "q",
        {"x-max-length": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "s"},
    )
    client.publish("q", "m")
    assert bodies(broker, "s") == ["m"]
