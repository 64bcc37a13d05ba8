"""Ends of a link: what each part is told, and that nothing is left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from acemq_amqp.core.ports import (
    Unknown,
    Unsent,
)
from acemq_amqp.errors import (
    BrokerError,
    ConnectionLost,
)
from acemq_amqp.transports.aiopika.link import AioPikaLink
from tests.support.proxy import Proxy
from tests.support.rabbitmq import RabbitMQ
from tests.transports.aiopika.stand import (
    Consumer,
    Told,
    channels,
    comes,
    linked,
    message,
    publish,
    queue,
    soon,
)

pytestmark = pytest.mark.server


async def lose(link: AioPikaLink, told: Told, cut: Any) -> BrokerError:
    """Loses a link under a publish in flight, a consumer and a call; checks what each is told."""
    await link.declare(queue("q"), soon())
    await publish(link, message(message_id="done"))
    consumer = await Consumer.start(link)
    (arrival,) = await consumer.take()
    await cut()
    await asyncio.wait_for(told.lost.wait(), 30)
    assert not consumer.subscription.live
    assert not arrival.settling.ack(arrival.tag)
    assert consumer.ends.empty()
    after = await link.submit(message(message_id="after")).outcome(soon())
    assert isinstance(after, Unsent)
    with pytest.raises(ConnectionLost):
        await link.look_up_queue("q", soon())
    with pytest.raises(ConnectionLost):
        await link.pull("q", soon())
    with pytest.raises(ConnectionLost):
        await Consumer.start(link)
    await consumer.subscription.close(soon())
    assert len(told.losses) == 1
    return told.losses[0]


async def test_closed_by_the_operator(
    own_rabbitmq: RabbitMQ, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()
    async with linked(own_rabbitmq.url, told) as link:

        async def cut() -> None:
            await asyncio.to_thread(own_rabbitmq.close_connections, "maintenance")

        why = await lose(link, told, cut)
    assert isinstance(why, ConnectionLost)
    assert why.code == 320 and "maintenance" in str(why)
    assert not caplog.records


async def test_reset_by_the_network(
    own_rabbitmq: RabbitMQ, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()
    with Proxy(own_rabbitmq.port) as proxy:
        async with linked(own_rabbitmq.url_of("/", proxy.port), told) as link:
            written: list[Any] = []

            async def cut() -> None:
                proxy.hold()
                written.append(link.submit(message(message_id="written")))
                written.append(asyncio.create_task(link.look_up_queue("q", soon())))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                proxy.cut()

            why = await lose(link, told, cut)
            assert isinstance(await written[0].outcome(soon()), Unknown)
            with pytest.raises(ConnectionLost):
                await written[1]
            written.clear()
    assert isinstance(why, ConnectionLost)
    assert str(proxy.port) in str(why)
    assert not caplog.records


async def test_silence_is_a_loss(own_rabbitmq: RabbitMQ, caplog: pytest.LogCaptureFixture) -> None:
    told = Told()
    with Proxy(own_rabbitmq.port) as proxy:
        url = own_rabbitmq.url_of("/", proxy.port) + "?heartbeat=1"
        async with linked(url, told) as link:

            async def cut() -> None:
                proxy.blackhole()

            why = await lose(link, told, cut)
    assert "heartbeat" in str(why)
    assert not caplog.records


async def test_abort_tells_no_loss_and_settles(own_rabbitmq: RabbitMQ) -> None:
    told = Told()
    async with linked(own_rabbitmq.url, told) as link:
        await link.declare(queue("q"), soon())
        await publish(link, message())
        written = link.submit(message(message_id="written"))
        await asyncio.sleep(0)
        link.abort()
        queued = link.submit(message(message_id="queued"))
        assert isinstance(await written.outcome(soon()), Unknown)
        assert isinstance(await queued.outcome(soon()), Unsent)
    assert not told.losses


async def test_close_flushes_what_was_settled(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, message())
        (arrival,) = await (await Consumer.start(link)).take()
        assert arrival.settling.ack(arrival.tag)
    async with linked(own_rabbitmq.url) as link:
        state = await link.look_up_queue("q", soon())
        assert state is not None and state.messages == 0


async def test_closing_twice_is_fine(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.close(soon(5.0))
        await link.close(soon(5.0))
        link.abort()


async def test_many_channels_come_and_go(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        for _ in range(50):
            consumers = await asyncio.gather(*(Consumer.start(link) for _ in range(10)))
            await asyncio.gather(*(one.subscription.close(soon()) for one in consumers))
        await comes(lambda: channels(own_rabbitmq) == 1, "the end of all but the side channel")


async def test_driver_that_gives_up_is_a_loss(own_rabbitmq: RabbitMQ) -> None:
    told = Told()
    async with linked(own_rabbitmq.url, told) as link:

        async def cut() -> None:
            # As if the broker had sent a method that the driver does not know.
            link._stream.data_received(b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\xff\xce")

        why = await lose(link, told, cut)
    assert "driver" in str(why)
