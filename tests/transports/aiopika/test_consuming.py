"""Consuming: deliveries as they were sent, settled once, ended by whoever ends them."""

from __future__ import annotations

import asyncio

import pytest

from acemq_amqp.core.ports import (
    Outgoing,
    SubscriptionEvents,
    SubscriptionRequest,
)
from acemq_amqp.errors import (
    AccessRefused,
    NotFound,
)
from acemq_amqp.fieldtable import HeaderTable, encode_table
from acemq_amqp.properties import Properties
from tests.support.rabbitmq import RabbitMQ
from tests.transports.aiopika.stand import (
    Consumer,
    channels,
    comes,
    linked,
    message,
    publish,
    queue,
    soon,
)

pytestmark = pytest.mark.server


async def test_properties_and_headers_come_as_they_were_sent(own_rabbitmq: RabbitMQ) -> None:
    headers = HeaderTable(encode_table({"ratio": 1.5, "raw": b"\x00\xff", "n": 2**40}))
    properties = Properties(
        content_type="text/plain", headers=headers, message_id="m", expiration="60000"
    )
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, Outgoing("", "q", "m", properties.encode(), b"x"))
        (arrival,) = await (await Consumer.start(link)).take()
        came = arrival.properties
        # RabbitMQ 4 sorts headers by name
        assert came.headers.values() == headers.values()
        assert came._replace(headers=headers) == properties
        assert (arrival.exchange, arrival.routing_key, arrival.redelivered) == ("", "q", False)


async def test_acks_are_kept_and_what_is_given_back_comes_again(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, *(message(message_id=str(n)) for n in range(10)))
        consumer = await Consumer.start(link)
        arrivals = await consumer.take(10)
        for arrival in arrivals:
            keep = arrival.properties.message_id != "3"
            assert (arrival.settling.ack if keep else arrival.settling.requeue)(arrival.tag)
        (again,) = await consumer.take()
        assert again.redelivered and again.properties.message_id == "3"
        await consumer.subscription.close(soon())
        state = await link.look_up_queue("q", soon())
        assert state is not None and (state.messages, state.consumers) == (1, 0)


async def test_settling_twice_or_late_does_nothing(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, *(message(message_id=str(n)) for n in range(3)))
        consumer = await Consumer.start(link)
        first, second, third = await consumer.take(3)
        settling = first.settling
        assert settling.ack(first.tag)
        assert not settling.ack(first.tag)
        assert not settling.requeue(first.tag)
        assert not settling.ack(999)
        assert await asyncio.to_thread(settling.ack, second.tag)
        assert consumer.subscription.live
        await consumer.subscription.close(soon())
        assert not consumer.subscription.live
        assert not settling.ack(third.tag)
        state = await link.look_up_queue("q", soon())
        assert state is not None and state.messages == 1


async def test_prefetch_is_the_consumers_own(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, *(message(message_id=str(n)) for n in range(4)))
        consumer = await Consumer.start(link, prefetch=2, tag="mine")
        first, second = await consumer.take(2)
        listed = own_rabbitmq.list_consumers()
        assert [(c["consumer_tag"], c["prefetch_count"]) for c in listed] == [("mine", 2)]
        state = await link.look_up_queue("q", soon())
        assert state is not None and state.messages == 2
        assert consumer.arrivals.empty()
        assert first.settling.ack(first.tag) and second.settling.ack(second.tag)
        assert len(await consumer.take(2)) == 2


async def test_cancelled_subscription_still_settles(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, message(message_id="1"), message(message_id="2"))
        consumer = await Consumer.start(link)
        first, second = await consumer.take(2)
        await consumer.subscription.cancel(soon())
        assert first.settling.ack(first.tag) and second.settling.requeue(second.tag)
        await consumer.subscription.close(soon())
        state = await link.look_up_queue("q", soon())
        assert state is not None and (state.messages, state.consumers) == (1, 0)
        assert consumer.ends.empty()


async def test_deleted_queue_ends_its_consumer(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, message())
        consumer = await Consumer.start(link)
        (arrival,) = await consumer.take()
        await link.delete_queue("q", soon())
        end = await consumer.end()
        assert end.code == 0 and "'q'" in str(end)
        assert not consumer.subscription.live
        assert not arrival.settling.ack(arrival.tag)
        await consumer.subscription.close(soon())
        assert consumer.ends.empty()
        await comes(lambda: channels(own_rabbitmq) == 2, "the end of the consumer's channel")


async def test_closed_channel_ends_its_consumer_and_no_other(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await link.declare(queue("other"), soon())
        await publish(link, message())
        consumer, other = await Consumer.start(link), await Consumer.start(link, "other")
        (arrival,) = await consumer.take()
        # An ack of an unknown tag, past the ledger: the broker closes the channel for it.
        consumer.subscription._ledger.delivered(77)
        assert arrival.settling.ack(77)
        end = await consumer.end()
        assert end.code == 406
        assert not consumer.subscription.live and other.subscription.live
        assert not arrival.settling.ack(arrival.tag)
        await publish(link, message("other"))
        assert len(await other.take()) == 1


@pytest.mark.parametrize("exclusive", [False, True])
async def test_refused_consumer_raises_and_tells_no_end(
    own_rabbitmq: RabbitMQ, exclusive: bool
) -> None:
    async with linked(own_rabbitmq.url) as link:
        if exclusive:
            await link.declare(queue("q"), soon())
            await Consumer.start(link, exclusive=True)
        consumer = Consumer()
        events = SubscriptionEvents(consumer.arrivals.put_nowait, consumer.ends.put_nowait)
        with pytest.raises(AccessRefused if exclusive else NotFound, match="'q'"):
            await link.subscribe(SubscriptionRequest("q", "t", 1), events, soon())
        assert consumer.ends.empty()
        assert not await link.look_up_exchange("nowhere", soon())


async def test_consumer_arguments_reach_the_broker(own_rabbitmq: RabbitMQ) -> None:
    stream = queue("s", **{"x-queue-type": "stream"})
    async with linked(own_rabbitmq.url) as link:
        await link.declare(stream, soon())
        await publish(link, *(message("s", b"%d" % n, message_id=str(n)) for n in range(5)))
        consumer = await Consumer.start(link, "s", arguments={"x-stream-offset": 3})
        assert [arrival.body for arrival in await consumer.take(2)] == [b"3", b"4"]
