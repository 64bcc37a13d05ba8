"""aio-pika at the same work: its plain connection, which is faster than its robust one."""

from __future__ import annotations

import asyncio
import time

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from benchmarks.queues import Load
from benchmarks.workload import CONTENT_TYPE, PAYLOAD, PREFETCH, Lap, concurrently, decoded, encoded


def publish(load: Load) -> float:
    """Concurrent publishes on a channel with confirms, as many at once as ours."""
    return asyncio.run(_publish(load))


def consume(load: Load) -> float:
    """A callback that decodes and acknowledges."""
    return asyncio.run(_consume(load))


async def _publish(load: Load) -> float:
    async with await aio_pika.connect(load.url) as connection:
        channel = await connection.channel(publisher_confirms=True)
        exchange = channel.default_exchange

        async def send() -> None:
            message = aio_pika.Message(
                encoded(PAYLOAD),
                content_type=CONTENT_TYPE,
                delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            )
            await exchange.publish(message, load.queue, mandatory=True)

        await concurrently(send, load.warmup)
        started = time.perf_counter()
        await concurrently(send, load.messages)
        return time.perf_counter() - started


async def _consume(load: Load) -> float:
    done = asyncio.Event()
    lap = Lap(load.warmup, load.messages, done.set)

    async def handle(message: AbstractIncomingMessage) -> None:
        decoded(message.body)
        await message.ack()
        lap.hit()

    async with await aio_pika.connect(load.url) as connection:
        channel = await connection.channel()
        await channel.set_qos(PREFETCH)
        queue = await channel.get_queue(load.queue)
        await queue.consume(handle)
        await done.wait()
    return lap.seconds
