"""Pulling: one message at a time, settled on its channel."""

from __future__ import annotations

import asyncio

import pytest

from acemq_amqp.errors import (
    BrokerTimeout,
    NotFound,
)
from tests.support.proxy import Proxy
from tests.support.rabbitmq import RabbitMQ
from tests.transports.aiopika.stand import linked, message, publish, queue, soon

pytestmark = pytest.mark.server


async def test_pull_settles_on_its_channel(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        assert await link.pull("q", soon()) is None
        await publish(link, message(message_id="1"), message(message_id="2"))
        first, second = await link.pull("q", soon()), await link.pull("q", soon())
        assert first is not None and second is not None
        assert first.settling.ack(first.tag) and second.settling.requeue(second.tag)
        again = await link.pull("q", soon())
        assert again is not None and again.redelivered and again.properties.message_id == "2"


async def test_pulls_at_once_get_a_message_each(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, *(message(message_id=str(n)) for n in range(20)))
        pulled = await asyncio.gather(*(link.pull("q", soon()) for _ in range(21)))
        ids = [arrival.properties.message_id for arrival in pulled if arrival is not None]
        assert sorted(ids, key=lambda n: int(n or 0)) == [str(n) for n in range(20)]


async def test_pull_from_a_missing_queue_leaves_others_alone(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, message())
        held = await link.pull("q", soon())
        with pytest.raises(NotFound, match="'missing'"):
            await link.pull("missing", soon())
        assert held is not None and held.settling.ack(held.tag)


async def test_pull_too_late_gives_the_message_back(own_rabbitmq: RabbitMQ) -> None:
    with Proxy(own_rabbitmq.port) as proxy:
        async with linked(own_rabbitmq.url_of("/", proxy.port)) as link:
            await link.declare(queue("q"), soon())
            await publish(link, message())
            assert await link.pull("q", soon()) is not None
            await publish(link, message(message_id="late"))
            proxy.hold()
            with pytest.raises(BrokerTimeout, match="'q'"):
                await link.pull("q", soon(0.1))
            proxy.resume()
            again = await link.pull("q", soon())
            while again is None:
                again = await link.pull("q", soon())
            assert again.properties.message_id == "late" and again.redelivered
