"""Messages of programs that know nothing of ours: read without complaint, and kept as they are."""

from __future__ import annotations

import json
import struct
from datetime import UTC, datetime
from typing import Any

import aio_pika
import pika
import pytest

from acemq_amqp import Envelope, dead_letter_queue, fixed_retry, retry
from acemq_amqp.fieldtable import HeaderTable
from tests.contract import threads
from tests.contract.api import Api, arrived
from tests.contract.seen import Seen, answering


async def test_a_bare_message_gets_an_identity_that_it_keeps(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(3, 0.01))
    queue = await api.queue(mq)
    seen = Seen(answering(retry()))
    await mq.consume(queue, seen)
    before = datetime.now(UTC).replace(microsecond=0)
    await api.publish_raw(queue, b'{"n": 1}')
    aside = await arrived(mq, dead_letter_queue(queue))
    first, *later = [message.envelope for message in seen.messages]
    assert (first.type, first.version, first.attempt) == (queue, 1, 1)
    assert first.correlation_id == first.id and first.first_seen >= before
    assert [each.attempt for each in later] == [2, 3]
    assert {each.id for each in later} == {first.id} == {aside.headers["x-acemq-id"]}
    assert {each.first_seen for each in later} == {first.first_seen}
    assert seen.payloads == [{"n": 1}] * 3
    assert aside.body == b'{"n": 1}'
    assert aside.properties.content_type is None


async def test_a_message_id_is_the_identity_where_no_header_is(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(2, 0))
    queue = await api.queue(mq)
    seen = Seen(answering(retry()))
    await mq.consume(queue, seen)
    await api.publish_raw(queue, message_id="order-7", type="native", timestamp=1, app_id="erp")
    aside = await arrived(mq, dead_letter_queue(queue))
    assert {message.envelope.id for message in seen.messages} == {"order-7"}
    assert {message.envelope.type for message in seen.messages} == {queue}
    wire = aside.properties
    assert (wire.message_id, wire.type, wire.timestamp) == ("order-7", "native", 1)
    assert wire.app_id == "erp"


_ODD: dict[str, dict[str, Any]] = {
    "an attempt in words": {"x-acemq-attempt": "abc"},
    "a negative attempt": {"x-acemq-attempt": -4},
    "a true attempt": {"x-acemq-attempt": True},
    "an attempt as a float": {"x-acemq-attempt": 1.5},
    "an attempt as a list": {"x-acemq-attempt": [1]},
    "an endless attempt": {"x-acemq-attempt": "9" * 400},
    "a version of nothing": {"x-acemq-version": None},
    "an id in bytes": {"x-acemq-id": b"id-\xff"},
    "an id of a number": {"x-acemq-id": 12},
    "a type as a table": {"x-acemq-type": {"a": [1]}},
    "a moment out of range": {"x-acemq-first-seen": 2**62},
    "a moment in words": {"x-acemq-first-seen": "yesterday"},
    "a moment as a moment": {"x-acemq-first-seen": datetime(2020, 1, 1, tzinfo=UTC)},
    "a route without sense": {"x-acemq-route": 3, "x-acemq-route-position": "x"},
    "an error of another kind": {"x-acemq-error": ["a", None]},
    "origins of ours, spoilt": {"x-acemq-exchange": 1, "x-acemq-routing-key": None},
    "deliveries in words": {"x-acemq-deliveries": "many"},
    "deaths that are none": {"x-death": "often"},
    "deaths of odd things": {"x-death": [1, "x", {"queue": 3}]},
    "copies that are odd": {"x-delivery-count": "three", "x-acquired-count": None},
}


@pytest.mark.parametrize("odd", list(_ODD))
async def test_odd_headers_are_read_retried_and_set_aside(api: Api, odd: str) -> None:
    mq = await api.connect(retry=fixed_retry(2, 0.1).wait_in_broker_from(0.1))
    queue = await api.queue(mq)
    envelopes: list[Envelope] = []

    def look(message: Any) -> Any:
        envelopes.append(message.envelope)
        repr(message), message.exchange, message.routing_key, message.headers
        return retry()

    await mq.consume(queue, Seen(look))
    headers = HeaderTable.of({**_ODD[odd], "tenant": "north"})
    await api.publish_raw(queue, b"1", headers=headers, message_id="m-1")
    aside = await arrived(mq, dead_letter_queue(queue))
    assert [envelope.attempt for envelope in envelopes] == [1, 2]
    assert len({envelope.id for envelope in envelopes}) == 1
    assert len({envelope.type for envelope in envelopes}) == 1
    assert aside.headers["tenant"] == "north"
    assert aside.headers["x-acemq-error"] == "exhausted 2 attempts: no reason given"


def _entry(name: str, code: bytes, value: bytes) -> bytes:
    return bytes((len(name),)) + name.encode() + code + value


#: entries that no encoder of ours writes, as they stand on the wire
_RAW: dict[str, bytes] = {
    "a float of 32 bits": _entry("odd", b"f", struct.pack(">f", 1.5)),
    "a byte": _entry("odd", b"b", struct.pack(">b", -1)),
    "an unsigned byte": _entry("odd", b"B", b"\xff"),
    "16 bits": _entry("odd", b"s", struct.pack(">h", -2)),
    "unsigned 32 bits": _entry("odd", b"i", struct.pack(">I", 2**32 - 1)),
    "a timestamp before 1970": _entry("odd", b"T", struct.pack(">q", -1)),
    "a timestamp past all dates": _entry("odd", b"T", struct.pack(">Q", 2**62)),
    "an array of tables": _entry("odd", b"A", struct.pack(">I", 5) + b"F" + bytes(4)),
    "text that is no utf-8": _entry("odd", b"S", struct.pack(">I", 2) + b"\xff\xfe"),
    "a decimal": _entry("odd", b"D", struct.pack(">Bi", 2, -1)),
    "bytes": _entry("odd", b"x", struct.pack(">I", 1) + b"\x00"),
}


@pytest.mark.parametrize("kind", list(_RAW))
async def test_header_bytes_of_another_kind_are_read_and_kept(api: Api, kind: str) -> None:
    mq = await api.connect(retry=fixed_retry(2, 0))
    queue, untouched = await api.queue(mq), await api.queue(mq, "untouched", quorum=False)
    for target in (queue, untouched):
        await api.publish_raw(target, b"1", headers=HeaderTable(_RAW[kind]))
    as_the_broker_gives_it = (await arrived(mq, untouched)).properties.headers.raw
    seen = Seen(answering(retry()))
    await mq.consume(queue, seen)
    aside = await arrived(mq, dead_letter_queue(queue))
    assert all("odd" in message.headers for message in seen.messages)
    assert as_the_broker_gives_it in aside.properties.headers.raw


@pytest.mark.parametrize("content_type", [None, "", "text/json", "APPLICATION/JSON; charset=utf-8"])
async def test_json_is_read_under_the_names_it_goes_by(api: Api, content_type: str | None) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    seen = Seen()
    await mq.consume(queue, seen)
    await api.publish_raw(queue, b"[1]", content_type=content_type)
    message = await seen.first()
    assert (message.payload, message.content_type) == ([1], content_type)


@pytest.mark.server
@pytest.mark.parametrize("stand", ["rabbitmq"], indirect=True)
async def test_a_message_of_pika_is_read(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    seen = Seen()
    await mq.consume(queue, seen)
    headers = {"n": 1, "flag": True, "list": [1, "a"], "when": datetime(2020, 1, 1)}

    def publish() -> None:
        connection = pika.BlockingConnection(pika.URLParameters(api.stand.url))
        properties = pika.BasicProperties(headers=headers, priority=1, content_type="text/json")
        connection.channel().basic_publish("", queue, b'"hello"', properties)
        connection.close()

    await threads.run(publish)
    message = await seen.first()
    assert message.payload == "hello"
    read = dict(message.headers)
    assert read.pop("when") == datetime(2020, 1, 1, tzinfo=UTC)
    assert read == {"n": 1, "flag": True, "list": [1, "a"]}


@pytest.mark.server
@pytest.mark.parametrize("stand", ["rabbitmq"], indirect=True)
async def test_a_message_of_aio_pika_is_read_and_ours_is_read_by_it(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    seen = Seen()
    consumer = await mq.consume(queue, seen)
    async with await aio_pika.connect(api.stand.url) as foreign:
        channel = await foreign.channel()
        outgoing = aio_pika.Message(
            json.dumps({"n": 1}).encode(), headers={"n": 2**40, "f": 1.5}, message_id="theirs"
        )
        await channel.default_exchange.publish(outgoing, queue)
        message = await seen.first()
        assert (message.payload, message.envelope.id) == ({"n": 1}, "theirs")
        assert dict(message.headers) == {"n": 2**40, "f": 1.5}
        await consumer.close()
        await mq.publisher("", queue).send({"n": 2}, headers={"tenant": "north"})
        read = await (await channel.get_queue(queue)).get(timeout=30)
        assert read is not None
        await read.ack()
    assert (read.body, read.headers["tenant"]) == (b'{"n":2}', "north")
    assert read.headers["x-acemq-id"] == read.message_id
