"""Running a query and looking after it, once for both flavours."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from acemq_amqp.durations import Duration, seconds
from acemq_amqp.errors import BrokerError, BrokerTimeout, ConfigurationError, StoreError
from acemq_amqp.eventlog.choices import checked, positive
from acemq_amqp.eventlog.client import LogClient
from acemq_amqp.eventlog.job import Job
from acemq_amqp.eventlog.moving import Lag
from acemq_amqp.eventlog.querying import Pace, Querying
from acemq_amqp.eventlog.selection import QUERY_GROUPS
from acemq_amqp.eventlog.windows.values import Counts

log = logging.getLogger("acemq_amqp")

State = Literal["running", "retrying", "stopped", "failed"]

_OPTIONS: Final = (
    *("query_id", "url", "batch_size", "max_partitions", "max_wait_millis", "version", "reset"),
    "error_limit",
)
_LOOK = 0.05


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """How a query is doing.

    :ivar state: ``running``; ``retrying`` while broker or store are away; ``stopped``; ``failed``
    :ivar error: what is wrong, where something is
    :ivar lag: messages that it has not committed
    :ivar open_windows: windows that are open in the store
    :ivar events: messages worked on here since it was started, as ``results`` and ``dead_letters``
    :ivar late: what became of late events
    """

    state: State
    error: str
    lag: Lag
    open_windows: int
    events: int
    results: int
    dead_letters: int
    late: Counts


@dataclass(frozen=True, slots=True)
class Orders:
    """What ``run`` was told.

    :ivar version: part of the query's shape: raise it where functions mean something else
    :ivar reset: ``"all"`` begins anew; ``"state"`` drops open windows and goes on
    """

    query_id: str
    pace: Pace
    version: str
    reset: str | None


def orders_of(url: object, options: dict[str, Any]) -> Orders:
    """What ``run(...)`` was told, checked.

    :param url: the log's own
    :raises ConfigurationError: an unknown option, or a value that cannot be
    """
    given = checked(options, _OPTIONS, "run()")
    query_id = given.get("query_id")
    if not isinstance(query_id, str) or not 1 <= len(query_id) <= 200 or "\0" in query_id:
        raise ConfigurationError(
            f"acemq: run() wants query_id, a text of 1 to 200 characters, and got "
            f"{query_id!r:.80}: windows and position are kept under it"
        )
    if given.get("url", url) != url:
        log.warning("acemq: run(url=...) is not used: a query runs where its log is")
    reset = given.get("reset")
    if reset not in (None, "all", "state"):
        raise ConfigurationError(f"acemq: reset of run() is {reset!r}: give 'all' or 'state'")
    if "max_partitions" in given:  # all lanes of a batch are worked on together
        positive(given["max_partitions"], "max_partitions of run()")
    pace = Pace(
        positive(given.get("batch_size", 500), "batch_size of run()"),
        max(0.01, seconds(given.get("max_wait_millis", 200), "max_wait_millis of run()") / 1000),
        positive(given.get("error_limit", 100), "error_limit of run()"),
    )
    return Orders(query_id, pace, str(given.get("version", "")), reset)


async def run(client: LogClient, job: Job, orders: Orders) -> Querying:
    """A query that runs; its cursor is written.

    :raises ConfigurationError: it is known with another shape, and no reset was asked for
    """
    source = job.source
    query = await client.store.register(orders.query_id, job.shape, orders.reset)
    group = f"{QUERY_GROUPS}{orders.query_id}"
    reading = await client.reading(source.name, group, source.mode, source.settings)
    for sink in (job.sink, job.late):
        if sink is not None:
            await sink.ready(client)
    if orders.reset == "all":
        await client.store.delete_group(group, reading.log.streams)
    await reading.placed_everywhere()
    relay = await client.relay()
    querying = Querying(reading, job, query, orders.pace, relay.wake)
    querying.start()
    client.runs(querying)
    return querying


async def stop(client: LogClient, querying: Querying) -> None:
    """Ends the cycle in hand, gives leases back, and sends what waits in the outbox."""
    querying.stop()
    await querying.left()
    relay = await client.relay()
    with suppress(BrokerError, StoreError):  # it waits there, for any relay
        while await relay.sweep():
            pass


async def drain(client: LogClient, querying: Querying, timeout: Duration) -> None:
    """Waits until everything is committed that was pushed before the call.

    :raises BrokerTimeout: it took longer
    :raises AceMQError: what ended the query
    """
    reading = querying.reading
    deadline = reading.now() + seconds(timeout, "timeout of drain()")
    ends = [(stream, (await reading.log.ends(stream)).tail) for stream in reading.log.streams]
    for stream, tail in ends:
        while not await _past(querying, stream, tail):
            if querying.failure is not None:
                raise querying.failure
            if reading.now() >= deadline:
                raise BrokerTimeout(
                    f"acemq: query {querying.query.id!r} has not come to offset {tail} of stream "
                    f"{stream!r} in time: see its status()"
                )
            await reading.work.clock.sleep(_LOOK)


async def _past(querying: Querying, stream: str, tail: int) -> bool:
    position = await querying.reading.store.position(querying.reading.group, stream)
    return position is not None and position.next > tail


async def status(client: LogClient, querying: Querying) -> StreamStatus:
    """How a query is doing."""
    place = await client.place(querying.reading.log.name)
    tally = querying.tally
    return StreamStatus(
        querying.state,
        querying.trouble,
        await place.lag(querying.reading.group),
        await client.store.open_windows(querying.query),
        tally.events,
        tally.results,
        tally.dead_letters,
        tally.late,
    )
