"""Reading a log through a group, its position kept in PostgreSQL, beside bare stream consumers.

The log is full before anybody reads. All decode every message; the bare consumers acknowledge to
the broker alone, and would begin anew after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import aio_pika
import pika
from aio_pika.abc import AbstractIncomingMessage
from pika.adapters.blocking_connection import BlockingChannel

from acemq_amqp import eventlog
from acemq_amqp.blocking import eventlog as blocking
from acemq_amqp.eventlog import LogMessage
from acemq_stores import SqlLogStore
from benchmarks.queues import Load
from benchmarks.workload import PAYLOAD, Lap, decoded

_AT_ONCE = 5000
#: as ours has it; with less they are slower
_PREFETCH = 1000
_FIRST = {"x-stream-offset": "first"}


def log_of(load: Load) -> str:
    """The log that is read."""
    return f"{load.queue}.read"


@contextmanager
def filled(load: Load) -> Iterator[SqlLogStore]:
    """A log of so many messages, and a store; the log is gone afterwards."""
    store = SqlLogStore(load.database)
    with blocking.EventLog(url=load.url, store=store) as client:
        log = client.queue(log_of(load))
        for start in range(0, load.total, _AT_ONCE):
            log.push([{"data": PAYLOAD}] * min(_AT_ONCE, load.total - start))
        yield store
        log.delete()
    store.close()


def grouped(load: Load) -> float:
    """A group, message by message."""
    with filled(load) as store:
        return asyncio.run(_grouped(load, store))


async def _grouped(load: Load, store: SqlLogStore) -> float:
    lap = Lap(load.warmup, load.messages, lambda: None)

    async def handle(message: LogMessage) -> None:
        lap.hit()

    async with eventlog.EventLog(url=load.url, store=store) as client:
        await _reads(client, load).consume(handle)
    return lap.seconds


def grouped_blocking(load: Load) -> float:
    """The same in the blocking flavour."""
    lap = Lap(load.warmup, load.messages, lambda: None)
    with filled(load) as store, blocking.EventLog(url=load.url, store=store) as client:
        _reads(client, load).consume(lambda message: lap.hit())
    return lap.seconds


def _reads(client: Any, load: Load) -> Any:
    queue = client.queue(log_of(load)).group("bench").subscription_mode("all")
    return queue.each().limit(load.total).config({"dead_letters": False})


def bare_aiopika(load: Load) -> float:
    """aio-pika's callback on the stream."""
    with filled(load):
        return asyncio.run(_bare_aiopika(load))


async def _bare_aiopika(load: Load) -> float:
    done = asyncio.Event()
    lap = Lap(load.warmup, load.messages, done.set)

    async def handle(message: AbstractIncomingMessage) -> None:
        if message.body:  # the log's own mark has none
            decoded(message.body)
            lap.hit()
        await message.ack()

    async with await aio_pika.connect(load.url) as connection:
        channel = await connection.channel()
        await channel.set_qos(_PREFETCH)
        stream = await channel.get_queue(log_of(load))
        await stream.consume(handle, arguments={**_FIRST})
        await done.wait()
    return lap.seconds


def bare_pika(load: Load) -> float:
    """pika's callback on the stream."""
    with filled(load), closing(pika.BlockingConnection(pika.URLParameters(load.url))) as connection:
        channel = connection.channel()
        lap = Lap(load.warmup, load.messages, channel.stop_consuming)

        def handle(channel: BlockingChannel, method: Any, properties: object, body: bytes) -> None:
            if body:
                decoded(body)
                lap.hit()
            channel.basic_ack(method.delivery_tag)

        channel.basic_qos(prefetch_count=_PREFETCH)
        channel.basic_consume(log_of(load), handle, arguments={**_FIRST})
        channel.start_consuming()
    return lap.seconds
