"""Running a query and looking after it, once for both flavours."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from acemq_amqp.durations import Duration, seconds
from acemq_amqp.errors import AceMQError, BrokerTimeout, ConfigurationError, NotFound
from acemq_amqp.eventlog.choices import checked, positive
from acemq_amqp.eventlog.client import LogClient
from acemq_amqp.eventlog.job import Job
from acemq_amqp.eventlog.moving import Lag
from acemq_amqp.eventlog.query_run import Limits, QueryRun
from acemq_amqp.eventlog.querying import Querying
from acemq_amqp.eventlog.selection import QUERY_GROUPS
from acemq_amqp.eventlog.tally import Tally
from acemq_amqp.eventlog.windows.values import Counts
from acemq_amqp.naming import dead_letter_queue

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

    :ivar state: ``running``; ``retrying`` while broker or store are away, or do not take what it
        puts out; ``stopped``; ``failed``
    :ivar error: what is wrong, where something is
    :ivar lag: messages that it has not committed; None where that could not be asked
    :ivar open_windows: windows that are open in the store; None where that could not be asked
    :ivar events: messages worked on here since it was started, as ``results`` and ``dead_letters``
    :ivar late: what became of late events
    """

    state: State
    error: str
    lag: Lag | None
    open_windows: int | None
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
    limits: Limits
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
    limits = Limits(
        positive(given.get("batch_size", 500), "batch_size of run()"),
        max(0.01, seconds(given.get("max_wait_millis", 200), "max_wait_millis of run()") / 1000),
        positive(given.get("error_limit", 100), "error_limit of run()"),
    )
    return Orders(query_id, limits, str(given.get("version", "")), reset)


async def run(client: LogClient, job: Job, orders: Orders) -> Querying:
    """A query that runs; its cursor is written.

    :raises ConfigurationError: it is known with another shape, and no reset was asked for; or its
        results cannot go where it says
    """
    work = (await client.connection()).work
    each = None if job.each is None else work.bind(job.each)
    source, group = job.source, f"{QUERY_GROUPS}{orders.query_id}"
    reading = await client.reading(source.name, group, source.mode, source.settings, create=True)
    sinks = [sink for sink in (job.sink, job.late) if sink is not None]
    for sink in sinks:  # before the query is known: what is mended has another shape
        await sink.check(client, reading.log)
    query = await client.store.register(orders.query_id, job.shape, orders.reset)
    if orders.reset == "state":
        log.warning("acemq: query %r was reset: windows that were open are lost", query.id)
    for sink in sinks:
        await sink.ready(client)
    if orders.reset == "all":
        await client.store.delete_group(group, reading.log.streams)
    await reading.placed_everywhere()
    relay = await client.relay()
    tally = Tally(work.lock())
    querying = Querying(QueryRun(reading, job, query, orders.limits, each, relay.wake, tally))
    querying.start()
    client.runs(querying)
    return querying


async def stop(client: LogClient, querying: Querying) -> None:
    """Ends the cycle in hand, gives leases back, and sends what waits in the outbox."""
    querying.stop()
    await querying.left()
    if not client.closed:  # closing has sent it, or it waits for any relay
        await client.send_out()


async def drain(client: LogClient, querying: Querying, timeout: Duration) -> None:
    """Waits until everything is committed that was pushed before the call.

    :raises BrokerTimeout: it took longer
    :raises AceMQError: what ended the query, or that it was stopped
    """
    reading = querying.run.reading
    deadline = reading.now() + seconds(timeout, "timeout of drain()")
    _refuse_ended(querying, stopped=client.closed)
    try:
        ends = [(stream, (await reading.log.ends(stream)).tail) for stream in reading.log.streams]
    except NotFound:  # the query meets it as well, and ends
        await querying.left(deadline)
        _refuse_ended(querying)
        raise
    for stream, tail in ends:
        while not await _past(querying, stream, tail):
            _refuse_ended(querying)
            if reading.now() >= deadline:
                raise BrokerTimeout(
                    f"acemq: query {querying.run.query.id!r} has not come to offset {tail} of "
                    f"stream {stream!r} in time: see its status()"
                )
            await reading.work.clock.sleep(_LOOK)


async def _past(querying: Querying, stream: str, tail: int) -> bool:
    reading = querying.run.reading
    position = await reading.store.position(reading.group, stream)
    return position is not None and position.next > tail


def _refuse_ended(querying: Querying, *, stopped: bool = True) -> None:
    if querying.failure is not None:
        raise querying.failure
    if querying.over and stopped:
        raise ConfigurationError(
            f"acemq: query {querying.run.query.id!r} was stopped, and drains nothing; run it again"
        )


async def status(client: LogClient, querying: Querying) -> StreamStatus:
    """How a query is doing, as far as broker and store can be asked."""
    run, lag, windows = querying.run, None, None
    with suppress(AceMQError):  # the client is closed, or the log or its group is gone: no answer
        windows = await client.store.open_windows(run.query)
        if querying.state != "retrying":  # the broker is waited for, where it is away
            lag = await (await client.place(run.reading.log.name)).lag(run.reading.group)
    state, trouble = querying.state, querying.trouble
    if not trouble and (refusal := _refusal(client, run)):
        state, trouble = ("retrying" if state == "running" else state), refusal
    return StreamStatus(
        state,
        trouble,
        lag,
        windows,
        run.tally.events,
        run.tally.results,
        run.tally.dead_letters,
        run.tally.late,
    )


def _refusal(client: LogClient, run: QueryRun) -> str:
    """Why what a query put out waits in the outbox; ``""`` where nothing was refused."""
    targets = [("", dead_letter_queue(run.reading.log.name))]
    for sink in (run.job.sink, run.job.late):
        if sink is not None:
            with suppress(NotFound):  # its log was deleted here
                targets += sink.targets
    refusal = client.refusal(targets)
    return refusal and (
        f"acemq: output of query {run.query.id!r}, or dead letters of its log, are not taken where "
        f"they go, and wait in the outbox: {refusal}"
    )
