"""What can be done with a selection of a log, once for both flavours."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from acemq_amqp.ack import retry
from acemq_amqp.core.checks import flag
from acemq_amqp.core.publishing import PublishResult
from acemq_amqp.errors import ConfigurationError, NotFound
from acemq_amqp.eventlog.choices import checked
from acemq_amqp.eventlog.client import LogClient
from acemq_amqp.eventlog.consuming import Consuming
from acemq_amqp.eventlog.errors import LeaseLost
from acemq_amqp.eventlog.failing import Dead, verdict_of
from acemq_amqp.eventlog.lane_consuming import LaneConsuming
from acemq_amqp.eventlog.messages import LogMessage
from acemq_amqp.eventlog.modes import target_of
from acemq_amqp.eventlog.moving import GroupStatus, Lag, Moved
from acemq_amqp.eventlog.popping import Popping, too_late
from acemq_amqp.eventlog.records import DEFAULT_LANE
from acemq_amqp.eventlog.selection import Selection, checked_group, payloads_of
from acemq_amqp.eventlog.settings import LogSettings


async def create(client: LogClient, selection: Selection) -> None:
    """Makes the log, or takes it as it is."""
    await client.log(selection.name, selection.settings)


async def push(
    client: LogClient, selection: Selection, message: object
) -> PublishResult | list[PublishResult]:
    """Appends a message, or a list of them in order; returns once they are confirmed."""
    payloads = payloads_of(message)
    log = await client.log(selection.name, selection.settings)
    results = await log.push(payloads, selection.lane or DEFAULT_LANE)
    return results if isinstance(message, list | tuple) else results[0]


async def pop(client: LogClient, selection: Selection) -> list[LogMessage]:
    """What is due and in nobody's hands."""
    popping = await client.popping(selection)
    connection = await client.connection()
    deadline = connection.work.clock.monotonic() + selection.patience
    return await popping.pop(selection.wanted, deadline)


async def start(client: LogClient, selection: Selection, handler: Any) -> Consuming | LaneConsuming:
    """A reader that runs; its group's cursor is written."""
    group = selection.grouped()
    connection = await client.connection()
    call = connection.work.bind(handler)
    reading = await client.reading(selection.name, group, selection.mode, selection.settings)
    await client.relay()
    await reading.placed_everywhere()
    reader: Consuming | LaneConsuming
    if selection.lane is None:
        reader = Consuming(reading, call, selection.plan)
    else:
        reader = LaneConsuming(reading, call, selection.plan, selection.lane)
    reader.start()
    client.runs(reader)
    return reader


async def consume(client: LogClient, selection: Selection, handler: Any) -> None:
    """Reads until the limit, the idle time or a stop; every acknowledgement is committed."""
    reader = await start(client, selection, handler)
    try:
        await reader.ended()
    except BaseException:
        reader.stop()
        await (await client.connection()).work.finish(reader.left())
        raise


async def lag(client: LogClient, selection: Selection) -> Lag:
    """How many messages the group has not acknowledged."""
    place = await client.place(selection.name)
    return await place.lag(selection.grouped(), selection.lane)


async def seek(
    client: LogClient, name: str, group: str, options: Mapping[str, Any], lane: str | None = None
) -> list[Moved]:
    """Moves a group; what was in flight is abandoned.

    :param lane: the one that is moved, unless the options name another
    """
    if lane is not None and isinstance(options, Mapping):
        options = {"partition": lane, **options}
    target, lane, dry_run = target_of(options, time.time())
    checked_group(group)
    place = await client.place(name)
    return await place.seek(group, target, lane, dry_run=dry_run)


async def groups(client: LogClient, name: str) -> list[GroupStatus]:
    """The groups of a log, and how far behind each is."""
    return await (await client.place(name)).groups()


async def delete(client: LogClient, selection: Selection) -> None:
    """Deletes the group that was named; without one, the log with all its groups."""
    try:
        log = await client.log(selection.name, LogSettings(), create=False)
    except NotFound:
        return
    if selection.reader:
        await client.store.delete_group(selection.reader, log.streams)
        return
    streams = log.streams
    await log.delete()
    await client.store.delete_streams(streams)
    await client.forget(selection.name)


async def ack(
    client: LogClient,
    messages: LogMessage | Sequence[LogMessage],
    handled: bool,
    options: Mapping[str, Any] | None,
) -> None:
    """Acknowledges what was popped; or gives it back to be tried again."""
    handled = flag(handled, "handled")
    given = tuple(messages) if isinstance(messages, list | tuple) else (messages,)
    named = checked(options or {}, ("group", "error"), "ack")
    for message in given:
        _refuse_foreign(message, named)
    by_group: dict[tuple[str, str], list[LogMessage]] = {}
    for message in given:
        by_group.setdefault((message.queue, message.group), []).append(message)
    late: list[LeaseLost] = []
    for (name, group), some in by_group.items():
        popping = client.popped(name, group)
        try:
            if popping is None:
                raise too_late(some[0])
            if handled:
                await popping.ack(some)
            else:
                await _back(popping, some, named.get("error"))
        except LeaseLost as failure:  # the others are acknowledged all the same
            late.append(failure)
    if late:
        raise late[0]


async def _back(popping: Popping, messages: Sequence[LogMessage], error: object) -> None:
    """Gives back the first of each lane; what is behind it comes again with it."""
    settings = popping.reading.settings
    said = retry(error if isinstance(error, str | BaseException) else "not acknowledged")
    first: dict[str, LogMessage] = {}
    for message in sorted(messages, key=lambda each: each.offset):
        first.setdefault(message.partition, message)
    late: list[LeaseLost] = []
    for message in first.values():
        verdict = verdict_of(said, message.attempt, limit=settings.retry_limit, delay=0)
        try:
            if isinstance(verdict, Dead) and settings.dead_letters:
                await popping.give_up(message, verdict.reason)
            else:
                await popping.put_back(message)
        except LeaseLost as failure:  # the others are given back all the same
            late.append(failure)
    if late:
        raise late[0]


def _refuse_foreign(message: object, named: Mapping[str, Any]) -> None:
    if not isinstance(message, LogMessage):
        raise ConfigurationError(
            f"acemq: ack takes messages that pop() gave, not a {type(message).__name__}"
        )
    group = named.get("group", message.group)
    if group != message.group:
        raise ConfigurationError(
            f"acemq: {message!r} was read by group {message.group!r}, and is acknowledged for "
            f"{group!r}: leave the group out, a message knows its own"
        )
