"""Our async flavour at work, as its users write it."""

from __future__ import annotations

import asyncio
import time

import acemq_amqp
from benchmarks.queues import Load
from benchmarks.workload import PAYLOAD, PREFETCH, WINDOW, Lap, concurrently


def publish(load: Load) -> float:
    """Concurrent sends, each of which returns with its confirm."""
    return asyncio.run(_publish(load))


def consume(load: Load) -> float:
    """A handler that does nothing; the toolkit decodes and acknowledges."""
    return asyncio.run(_consume(load))


async def _publish(load: Load) -> float:
    async with acemq_amqp.connect(load.url, max_outstanding=WINDOW) as mq:
        publisher = mq.publisher(routing_key=load.queue)

        async def send() -> None:
            await publisher.send(PAYLOAD)

        await concurrently(send, load.warmup)
        started = time.perf_counter()
        await concurrently(send, load.messages)
        return time.perf_counter() - started


async def _consume(load: Load) -> float:
    done = asyncio.Event()
    lap = Lap(load.warmup, load.messages, done.set)

    async def handle(message: acemq_amqp.Message) -> None:
        lap.hit()

    async with acemq_amqp.connect(load.url) as mq:
        # declare=False: nothing fails here, so no dead-letter queue has to be there and go again
        await mq.consume(load.queue, handle, prefetch=PREFETCH, declare=False)
        await done.wait()
    return lap.seconds
