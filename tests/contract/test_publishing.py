"""A send that returns was confirmed; what it carried is what arrives, property by property."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from acemq_amqp import Envelope, Message, Metrics, Publication, Topology
from acemq_amqp.codecs.bytes import BytesCodec
from acemq_amqp.codecs.text import TextCodec
from tests.contract.api import Api, arrived, holds
from tests.contract.seen import Seen


async def test_a_send_that_returns_has_been_stored(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    result = await mq.publisher("", queue).send({"number": 1})
    assert result.routed and result.repeated == 0
    delivery = await arrived(mq, queue)
    assert delivery.body == b'{"number":1}'
    assert delivery.headers["x-acemq-id"] == result.message_id


async def test_the_properties_on_the_wire_are_the_contract_s(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    result = await mq.publisher("", queue).send({"number": 1})
    delivery = await arrived(mq, queue)
    wire = delivery.properties
    assert (wire.content_type, wire.delivery_mode) == ("application/json", 2)
    assert wire.message_id == result.message_id
    unasked = ("reply_to", "priority", "expiration", "correlation_id", "type", "timestamp")
    assert [name for name in unasked if getattr(wire, name) is not None] == []
    assert (wire.user_id, wire.app_id, wire.content_encoding) == (None, None, None)


async def test_the_headers_on_the_wire_are_the_contract_s(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    result = await mq.publisher("", queue).send(1)
    headers = dict((await arrived(mq, queue)).headers)
    assert isinstance(headers.pop("x-acemq-first-seen"), int)
    headers.pop("x-delivery-count", None)  # the broker's own, on a quorum queue
    assert headers == {
        "x-acemq-id": result.message_id,
        "x-acemq-type": queue,
        "x-acemq-version": 1,
        "x-acemq-correlation": result.message_id,
        "x-acemq-attempt": 1,
        "x-acemq-origin": f"acemq@{socket.gethostname()}",
    }


async def test_a_message_without_type_and_key_is_of_type_message(api: Api) -> None:
    mq = await api.connect()
    queue, exchange = await api.queue(mq), api.name("events")
    await mq.declare(Topology().exchange(exchange, "fanout").binding(queue, exchange))
    await mq.publisher(exchange).send(1)
    assert (await arrived(mq, queue)).headers["x-acemq-type"] == "message"


async def test_what_a_send_asks_for_is_on_the_wire(api: Api) -> None:
    mq = await api.connect(origin="billing@here")
    queue = await api.queue(mq, quorum=False)
    await mq.publisher("", queue, persistent=False, codec=TextCodec()).send(
        "hello",
        headers={"tenant": "north"},
        reply_to="answers",
        priority=7,
        expiration=timedelta(minutes=5),
    )
    delivery = await arrived(mq, queue)
    wire = delivery.properties
    assert wire.content_type == "text/plain; charset=utf-8"
    assert (wire.delivery_mode, wire.priority) == (1, 7)
    assert (wire.reply_to, wire.expiration) == ("answers", "300000")
    assert (delivery.headers["tenant"], delivery.headers["x-acemq-origin"]) == (
        "north",
        "billing@here",
    )


async def test_native_properties_travel_where_a_send_asks_for_them(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    assert mq.broker is not None
    await mq.publisher("", queue).send(
        1,
        correlation_id="ordér-7",
        type="order",
        timestamp=datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC),
        app_id="shop",
        user_id=mq.broker.login,
        content_encoding="identity",
    )
    await mq.publisher("", queue).send(2, timestamp=0, app_id="")
    wire = (await arrived(mq, queue)).properties
    assert (wire.correlation_id, wire.type, wire.app_id) == ("ordér-7", "order", "shop")
    assert (wire.timestamp, wire.content_encoding) == (1_767_323_045, "identity")
    assert wire.user_id == mq.broker.login
    wire = (await arrived(mq, queue)).properties
    assert (wire.timestamp, wire.app_id, wire.correlation_id, wire.type) == (0, None, None, None)


async def test_an_envelope_of_the_caller_s_travels(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    seen = Seen()
    await mq.consume(queue, seen)
    cause = Envelope(type="order.placed", headers={"tenant": "north"})
    envelope = cause.caused(type="invoice.due", version=3, headers={"lane": 2})
    result = await mq.publisher("", queue).send({}, envelope=envelope)
    received = (await seen.first()).envelope
    assert result.message_id == received.id == envelope.id
    assert (received.type, received.version) == ("invoice.due", 3)
    assert (received.causation_id, received.correlation_id) == (cause.id, cause.id)
    assert received.first_seen == envelope.first_seen
    assert dict(received.headers) == {"lane": 2}


async def test_a_message_past_its_expiration_is_gone(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    publisher = mq.publisher("", queue)
    await publisher.send("late", expiration=timedelta(milliseconds=1))
    await publisher.send("kept")
    await holds(mq, queue, 1)
    assert (await arrived(mq, queue)).body == b'"kept"'


async def test_a_classic_queue_with_priorities_gives_the_highest_first(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq, quorum=False, args={"x-max-priority": 9})
    publisher = mq.publisher("", queue)
    for priority in (1, 9, 5):
        await publisher.send(priority, priority=priority)
    assert [(await arrived(mq, queue)).body for _ in range(3)] == [b"9", b"5", b"1"]


async def test_a_routing_key_of_the_send_s_own_wins(api: Api) -> None:
    mq = await api.connect()
    one, other = await api.queue(mq, "one"), await api.queue(mq, "other")
    await mq.publisher("", one).send(1, routing_key=other)
    await holds(mq, other, 1)
    assert await mq.pull(one) is None


async def test_send_many_keeps_the_order_and_gives_a_result_for_each(api: Api) -> None:
    mq = await api.connect(max_outstanding=50)
    queue = await api.queue(mq)
    results = await mq.publisher("", queue).send_many(range(200))
    assert len({result.message_id for result in results}) == 200
    assert all(result.routed for result in results)
    seen = Seen()
    await mq.consume(queue, seen)
    messages = await seen.count(200)
    assert seen.payloads == list(range(200))
    assert [m.envelope.id for m in messages] == [r.message_id for r in results]


async def test_send_many_of_nothing_is_nothing(api: Api) -> None:
    mq = await api.connect()
    assert await mq.publisher("", "nowhere").send_many([]) == []


async def test_one_place_in_the_window_is_enough(api: Api) -> None:
    mq = await api.connect(max_outstanding=1)
    queue = await api.queue(mq)
    publisher = mq.publisher("", queue)
    await asyncio.gather(*(publisher.send(number) for number in range(20)))
    await publisher.send_many(range(20))
    assert mq.outstanding == 0
    await holds(mq, queue, 40)


async def test_a_message_larger_than_the_window_goes_alone(api: Api) -> None:
    mq = await api.connect(max_outstanding_bytes=1000)
    queue = await api.queue(mq)
    publisher = mq.publisher("", queue, codec=BytesCodec())
    await asyncio.gather(*(publisher.send(b"x" * size) for size in (10, 5000, 10, 5000)))
    await holds(mq, queue, 4)


async def test_equal_ids_to_a_queue_are_all_confirmed(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    publisher = mq.publisher("", queue)
    envelope = Envelope()
    sends = (publisher.send(number, envelope=envelope) for number in range(3))
    results = await asyncio.gather(*sends)
    assert [result.message_id for result in results] == [envelope.id] * 3
    await holds(mq, queue, 3)


async def test_many_callers_share_a_publisher(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    publisher = mq.publisher("", queue)

    async def caller(number: int) -> None:
        for step in range(25):
            await publisher.send([number, step])

    await asyncio.gather(*(caller(number) for number in range(8)))
    seen = Seen()
    await mq.consume(queue, seen)
    await seen.count(200)
    for number in range(8):
        assert [p[1] for p in seen.payloads if p[0] == number] == list(range(25))


async def test_a_binary_body_arrives_byte_for_byte(api: Api) -> None:
    mq = await api.connect(codec=BytesCodec())
    queue = await api.queue(mq)
    body = bytes(range(256)) * 2000  # several frames
    await mq.publisher("", queue).send(body)
    await mq.publisher("", queue).send(b"")
    assert (await arrived(mq, queue)).body == body
    assert (await arrived(mq, queue)).body == b""


async def test_interceptors_of_a_publish_see_and_change_it_in_order(api: Api) -> None:
    def stamped(publication: Publication) -> Publication:
        envelope = publication.envelope.with_(headers={"stamp": publication.routing_key})
        return replace(publication, envelope=envelope)

    def looked_at(publication: Publication) -> None:
        looks.append(dict(publication.envelope.headers))

    def doubled(publication: Publication) -> Publication:
        return replace(publication, payload=publication.payload * 2)

    looks: list[dict[str, Any]] = []
    mq = await api.connect(on_publish=[stamped, looked_at, doubled])
    queue = await api.queue(mq)
    result = await mq.publisher("", queue).send("ab")
    delivery = await arrived(mq, queue)
    assert looks == [{"stamp": queue}]
    assert (delivery.body, delivery.headers["stamp"]) == (b'"abab"', queue)
    assert delivery.headers["x-acemq-id"] == result.message_id


async def test_interceptors_of_a_consume_wrap_the_handler_outermost_first(api: Api) -> None:
    order: list[str] = []

    def wrapper(name: str) -> Any:
        def wrap(handler: Any) -> Any:
            def handle(message: Message) -> Any:
                order.append(name)
                return handler(message)

            return handle

        return wrap

    mq = await api.connect(on_consume=[wrapper("outer"), wrapper("inner")])
    queue = await api.queue(mq)
    seen = Seen(lambda message: order.append("handler"))
    await mq.consume(queue, seen)
    await mq.publisher("", queue).send(1)
    await seen.first()
    assert order[:2] == ["outer", "inner"]


async def test_publishes_are_counted_by_exchange_key_and_outcome(api: Api) -> None:
    metrics = Metrics()
    mq = await api.connect(observer=metrics)
    queue, exchange = await api.queue(mq), api.name("events")
    await mq.declare(Topology().exchange(exchange))
    await mq.publisher("", queue).send_many([1, 2])
    await mq.publisher(exchange, "nobody.listens").send(3)
    with pytest.raises(Exception, match="no queue took"):
        await mq.publisher("", api.name("missing")).send(4)
    total = "acemq.publish.total"
    assert metrics.total(total, exchange="", routing_key=queue, outcome="confirmed") == 2
    assert metrics.total(total, exchange=exchange, outcome="unroutable") == 1
    assert metrics.total(total, outcome="refused") == 1
