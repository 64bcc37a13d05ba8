"""Relays of ours at work on one outbox, each in a process of its own as they would be deployed.

Before the records are there the relays have shared the ordering keys among themselves. The time is
from the commit of the last record to the moment at which a relay finds nothing left.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Barrier, Event

import acemq_amqp
from acemq_amqp import blocking
from acemq_amqp.blocking.patterns import OutboxRelay as BlockingRelay
from acemq_amqp.patterns import OutboxRecord, OutboxRelay, record
from acemq_amqp.patterns.waiting import driven
from acemq_stores import SqlOutboxStore
from benchmarks.queues import Load
from benchmarks.workload import PAYLOAD

#: ordering keys of the records
KEYS = 200
#: seconds; short, so that relays share out the keys in the time that they are given for it
LEASE = 3.0
#: records of a claim, as a relay is given where thousands wait
BATCH = 500
_SHARING = 1.5
_LOOK = 0.005

#: begins and ends at once with the others; is set when the records are there
Relay = Callable[[Load, Barrier, Event], None]


def one(load: Load) -> float:
    """One relay."""
    return _relayed(load, 1, relay_awaiting)


def two(load: Load) -> float:
    """Two relays."""
    return _relayed(load, 2, relay_awaiting)


def four(load: Load) -> float:
    """Four relays."""
    return _relayed(load, 4, relay_awaiting)


def one_blocking(load: Load) -> float:
    """One relay of the blocking flavour."""
    return _relayed(load, 1, relay_blocking)


def _relayed(load: Load, count: int, relay: Relay) -> float:
    context = multiprocessing.get_context("spawn")
    together, there = context.Barrier(count + 1), context.Event()
    relays = [context.Process(target=relay, args=(load, together, there)) for _ in range(count)]
    for each in relays:
        each.start()
    together.wait()
    time.sleep(_SHARING)
    add_records(load)
    started = time.perf_counter()
    there.set()
    together.wait()
    seconds = time.perf_counter() - started
    for each in relays:
        each.join()
    return seconds * load.messages / load.total


def add_records(load: Load) -> None:
    """Commits the records, all by one transaction."""
    store = SqlOutboxStore(load.database)
    with blocking.connect(load.url) as mq:
        driven(_added(store, list(_records(load, mq))))
    store.close()


async def _added(store: SqlOutboxStore, records: list[OutboxRecord]) -> None:
    await store.add_many(records)


def _records(load: Load, mq: blocking.Connection) -> Iterator[OutboxRecord]:
    for number in range(load.total):
        yield record(mq, "", load.queue, PAYLOAD, ordering_key=f"key-{number % KEYS}")


def relay_awaiting(load: Load, together: Barrier, there: Event) -> None:
    """One process of the async flavour."""
    asyncio.run(_relay_awaiting(load, together, there))


async def _relay_awaiting(load: Load, together: Barrier, there: Event) -> None:
    store = SqlOutboxStore(load.database, lease=LEASE)
    async with acemq_amqp.connect(load.url) as mq:
        relay = OutboxRelay(mq, store, batch=BATCH)
        await relay.sweep()
        await asyncio.to_thread(together.wait)
        while not there.is_set():
            await asyncio.sleep(_LOOK)
            await relay.sweep()
        while await relay.sweep() or (await store.status()).waiting:
            pass
        await asyncio.to_thread(together.wait)
        await relay.close()
    store.close()


def relay_blocking(load: Load, together: Barrier, there: Event) -> None:
    """One process of the blocking flavour."""
    store = SqlOutboxStore(load.database, lease=LEASE)
    with blocking.connect(load.url) as mq:
        relay = BlockingRelay(mq, store, batch=BATCH)
        relay.sweep()
        together.wait()
        while not there.is_set():
            time.sleep(_LOOK)
            relay.sweep()
        while relay.sweep() or driven(store.status()).waiting:
            pass
        together.wait()
        relay.close()
    store.close()
