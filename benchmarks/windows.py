"""A query over a log: keyed tumbling windows, each cycle committed to PostgreSQL.

The log is full before the query begins. The time is from the query's first message that counts to
the commit of the last one; what was warmed up with is read and committed before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TypeAlias

import psycopg

from acemq_amqp import connect
from acemq_amqp.envelope import Envelope
from acemq_amqp.eventlog import EventLog, Stream, StreamStatus
from acemq_amqp.eventlog.log import Log
from acemq_amqp.eventlog.records import lane_headers
from acemq_amqp.eventlog.selection import QUERY_GROUPS
from acemq_amqp.eventlog.store import Fence, Step, WindowRow
from acemq_stores import SqlLogStore
from benchmarks.queues import Load

#: a whole hour, by the publishers' clock
THEN = 1_700_002_800.0
FOREVER = 4_000_000_000.0
LANES = 8
#: keys of which each has a window in every second
KEYS = 100
#: messages that were published in one second
PER_SECOND = 2000
#: keys that have events while others have a window open and none
HOT = 10
_AT_ONCE = 5000

Said: TypeAlias = Callable[[EventLog, Load], Stream]


def log_of(load: Load) -> str:
    """The log that is read."""
    return f"{load.queue}.log"


def totals_of(load: Load) -> str:
    """The log that results go to."""
    return f"{load.queue}.totals"


async def _fill(load: Load, keys: int) -> None:
    """Makes the log and fills it."""
    async with connect(load.url) as mq:
        log = Log(mq, log_of(load))
        await log.ready()
        publisher = mq.publisher("", log.name)
        for start in range(0, load.total, _AT_ONCE):
            numbers = range(start, min(start + _AT_ONCE, load.total))
            headers = [lane_headers(f"lane-{n % LANES}", THEN + n / PER_SECOND) for n in numbers]
            await publisher.send_many(
                [{"key": f"hot-{n % keys}", "amount": n} for n in numbers],
                envelopes=[Envelope(headers=each) for each in headers],
            )


def seconds_long(load: Load) -> float:
    """Windows of a second; each closes, and its result goes to another log."""
    return asyncio.run(_run(load, KEYS, _by_the_second))


def beside_many(load: Load) -> float:
    """Windows of an hour of ten keys, beside 100,000 that are open and quiet (fewer in a trial)."""
    return asyncio.run(_run(load, HOT, _by_the_hour, 10 * load.messages))


def alone(load: Load) -> float:
    """The same ten with no others."""
    return asyncio.run(_run(load, HOT, _by_the_hour))


class TimedStore(SqlLogStore):
    """Notes when each commit was done, and how far it came."""

    def __init__(self, database: str) -> None:
        super().__init__(database)
        self.laps: list[tuple[int, float]] = []

    async def commit(self, fence: Fence, holder: str, step: Step) -> bool:
        done = await super().commit(fence, holder, step)
        self.laps.append((step.upto, time.perf_counter()))
        return done

    def seconds(self, load: Load) -> float:
        """What the messages took, from the last commit that was warming up."""
        last = next(lap for lap in self.laps if lap[0] > load.total)
        first = [lap for lap in self.laps if lap[0] <= load.warmup][-1]
        return (last[1] - first[1]) * load.messages / (last[0] - first[0])


async def _run(load: Load, keys: int, said: Said, others: int = 0) -> float:
    await _fill(load, keys)
    with closing(TimedStore(load.database)) as store:
        async with EventLog(url=load.url, store=store) as log:
            return await _counted(store, log, said(log, load), load, others)


async def _counted(
    store: TimedStore, log: EventLog, query: Stream, load: Load, others: int
) -> float:
    await _open(store, query, load, others)
    try:
        running = await query.run(query_id=load.queue)
        await running.drain(timeout=600)
        await running.stop()
        _check(await running.status(), load)
        return store.seconds(load)
    finally:
        await log.queue(log_of(load)).delete()
        await log.queue(totals_of(load)).delete()


def _check(status: StreamStatus, load: Load) -> None:
    if status.events != load.total or status.dead_letters:
        raise RuntimeError(
            f"acemq: {status.events} events and {status.dead_letters} dead letters of "
            f"{load.total} messages: what was measured counts for nothing"
        )


async def _open(store: SqlLogStore, query: Stream, load: Load, count: int) -> None:
    """Opens windows of other keys in the query's name, long before and for long."""
    group, stream = f"{QUERY_GROUPS}{load.queue}", log_of(load)
    known = await store.register(load.queue, query.job().shape)
    await store.create(group, stream, 0, "")
    position = await store.hold(group, stream, "opening")
    assert position is not None
    for start in range(0, count, _AT_ONCE):
        numbers = range(start, min(start + _AT_ONCE, count))
        step = Step(0, query=known, windows=[_cold(number) for number in numbers])
        await store.commit(position.fence, "opening", step)
    await store.release(position.fence, "opening")
    _tidy(load)


def _tidy(load: Load) -> None:
    """What the database would do of itself after that, while the time is taken."""
    with psycopg.connect(load.database, autocommit=True) as tidying:
        tidying.execute("VACUUM ANALYZE")
        with suppress(psycopg.errors.InsufficientPrivilege):
            tidying.execute("CHECKPOINT")


def _cold(number: int) -> WindowRow:
    state = '{"of":{"count":1,"sum":[1,null,[]]}}'
    return WindowRow(f"lane-{number % LANES}", f"cold-{number}", THEN, FOREVER, FOREVER, 0, state)


def _by_the_second(log: EventLog, load: Load) -> Stream:
    return _summed(log, load, 1)


def _by_the_hour(log: EventLog, load: Load) -> Stream:
    return _summed(log, load, 3600)


def _summed(log: EventLog, load: Load, seconds: float) -> Stream:
    source = log.queue(log_of(load)).config({"dead_letters": False}).subscription_mode("all")
    query = Stream.from_(source).key_by(lambda sale: sale["key"])
    query.window_tumbling(seconds=seconds)
    query.aggregate({"count": lambda sale: 1, "sum": lambda sale: sale["amount"]})
    return query.to(log.queue(totals_of(load)))
