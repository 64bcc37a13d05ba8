"""Consuming with a note of every message in PostgreSQL, beside consuming without."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import acemq_amqp
from acemq_amqp import blocking
from acemq_amqp.patterns import idempotent
from acemq_stores import SqlIdempotencyStore
from benchmarks.queues import Load
from benchmarks.workload import PREFETCH, Lap

#: handlers at once
CONCURRENCY = 16


def noted(load: Load) -> float:
    """Async handlers, each behind its claim and before its confirmation."""
    store = SqlIdempotencyStore(load.database)
    try:
        return asyncio.run(_consumed(load, lambda handler: idempotent(store, handler)))
    finally:
        store.close()


def plain(load: Load) -> float:
    """The same handlers alone."""
    return asyncio.run(_consumed(load, lambda handler: handler))


def noted_blocking(load: Load) -> float:
    """Plain handlers in threads, each behind its claim and before its confirmation."""
    store = SqlIdempotencyStore(load.database)
    try:
        return _consumed_blocking(load, lambda handler: idempotent(store, handler))
    finally:
        store.close()


def plain_blocking(load: Load) -> float:
    """The same handlers alone."""
    return _consumed_blocking(load, lambda handler: handler)


async def _consumed(load: Load, wrapped: Any) -> float:
    done = asyncio.Event()
    lap = Lap(load.warmup, load.messages, done.set)

    async def handle(message: acemq_amqp.Message) -> None:
        lap.hit()

    async with acemq_amqp.connect(load.url) as mq:
        await mq.consume(
            load.queue, wrapped(handle), prefetch=PREFETCH, concurrency=CONCURRENCY, declare=False
        )
        await done.wait()
    return lap.seconds


def _consumed_blocking(load: Load, wrapped: Any) -> float:
    done = threading.Event()
    lap = Lap(load.warmup, load.messages, done.set)

    def handle(message: blocking.Message) -> None:
        lap.hit()

    with blocking.connect(load.url) as mq:
        mq.consume(
            load.queue, wrapped(handle), prefetch=PREFETCH, concurrency=CONCURRENCY, declare=False
        )
        done.wait()
    return lap.seconds
