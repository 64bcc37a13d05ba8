"""Where a query's output goes: a log, a queue, an exchange. All of it waits in the outbox first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from acemq_amqp.core.connection import Connection
from acemq_amqp.envelope import Envelope
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog.client import LogClient
from acemq_amqp.eventlog.log import Log
from acemq_amqp.eventlog.outgoing import push_record
from acemq_amqp.eventlog.records import (
    DEFAULT_LANE,
    LONGEST_LANE,
    WindowInfo,
    window_headers,
)
from acemq_amqp.eventlog.selection import Selection
from acemq_amqp.naming import checked_name
from acemq_amqp.patterns.outbox import OutboxRecord, record


@dataclass(frozen=True, slots=True)
class Output:
    """One result of a query.

    :ivar id: the same whenever this result is made again
    :ivar lane: the lane that it was made of
    :ivar key: its key: the lane, unless ``key_by`` said otherwise
    :ivar data: the payload
    :ivar window: bounds, key and revision; None where the query has no windows
    """

    id: str
    lane: str
    key: str
    data: Any
    window: WindowInfo | None = None


class Sink(Protocol):
    """Makes outbox records of results."""

    @property
    def shape(self) -> str:
        """Kind and name, as a query's shape has them."""

    @property
    def targets(self) -> Sequence[tuple[str, str]]:
        """Exchange and routing key of all that it makes, once it is ready."""

    async def check(self, client: LogClient, source: Log) -> None:
        """Sees that results can go there. Makes nothing.

        :param source: what the query reads
        :raises ConfigurationError: it is the source itself, or there is no such place
        """

    async def ready(self, client: LogClient) -> None:
        """Makes what it needs before the first result."""

    def record_of(self, output: Output, now: float) -> OutboxRecord:
        """A result, ready to be sent.

        :raises AceMQError: it cannot travel
        """


class LogSink:
    """A lane of a log for each key."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._log: Log | None = None
        self._connection: Connection | None = None

    @property
    def shape(self) -> str:
        return f"log {self._selection.name}"

    @property
    def targets(self) -> Sequence[tuple[str, str]]:
        return [] if self._log is None else [("", stream) for stream in self._log.streams]

    async def check(self, client: LogClient, source: Log) -> None:
        _refuse_own_source(self._selection.name, source)

    async def ready(self, client: LogClient) -> None:
        self._log = await client.log(self._selection.name, self._selection.settings)
        self._connection = await client.connection()

    def record_of(self, output: Output, now: float) -> OutboxRecord:
        assert self._log is not None and self._connection is not None, "ready() comes first"
        lane = self._selection.lane or _lane(output)
        return push_record(
            self._connection,
            self._log.stream_of(lane),
            lane,
            output.data,
            now=now,
            id=output.id,
            window=output.window,
        )


class PlaceSink:
    """An exchange and a routing key; a queue is the key at the default exchange."""

    def __init__(self, exchange: str, routing_key: str) -> None:
        self._exchange = exchange
        self._key = routing_key
        self._connection: Connection | None = None

    @property
    def shape(self) -> str:
        kind = "exchange" if self._exchange else "queue"
        return f"{kind} {self._exchange} {self._key}"

    @property
    def targets(self) -> Sequence[tuple[str, str]]:
        return [(self._exchange, self._key)]

    async def check(self, client: LogClient, source: Log) -> None:
        connection, exchange = await client.connection(), self._exchange
        if exchange:
            there = await connection.ask(lambda link, limit: link.look_up_exchange(exchange, limit))
        else:
            _refuse_own_source(self._key, source)
            there = await connection.queue_exists(self._key)
        if not there:
            kind, name = ("exchange", exchange) if exchange else ("queue", self._key)
            raise ConfigurationError(
                f"acemq: a query's results go to {kind} {name!r}, and there is none: declare it, "
                "or mend the name; for a log give event_log.queue(name)"
            )

    async def ready(self, client: LogClient) -> None:
        self._connection = await client.connection()

    def record_of(self, output: Output, now: float) -> OutboxRecord:
        assert self._connection is not None, "ready() comes first"
        told = {} if output.window is None else window_headers(output.window)
        return record(
            self._connection,
            self._exchange,
            self._key,
            output.data,
            envelope=Envelope(id=output.id, headers=told),
            ordering_key=f"{self._exchange} {self._key} {output.key}"[:255],
        )


def sink_of(target: object) -> Sink:
    """Where ``to(...)`` sends: a log's selection, or a queue by name.

    :raises ConfigurationError: anything else
    """
    if isinstance(target, Selection):
        return LogSink(target)
    if isinstance(target, str):
        return PlaceSink("", checked_name(target, "queue"))
    raise ConfigurationError(
        f"acemq: to() takes a log (event_log.queue(name)), or a queue's name, not a "
        f"{type(target).__name__}"
    )


def exchange_sink(exchange: str, routing_key: str) -> Sink:
    """An exchange, with the key that results are published under."""
    return PlaceSink(checked_name(exchange, "exchange"), routing_key)


def _refuse_own_source(name: str, source: Log) -> None:
    if name in (source.name, *source.streams):
        raise ConfigurationError(
            f"acemq: a query over log {source.name!r} cannot send to {name!r}: it would read what "
            "it puts out, for ever; send to another log"
        )


def _lane(output: Output) -> str:
    """The key's own lane, where a lane can be called so."""
    fits = 0 < len(output.key.encode()) <= LONGEST_LANE
    return output.key if fits else (output.lane or DEFAULT_LANE)


def records_of(sink: Sink | None, outputs: Sequence[Output], now: float) -> list[OutboxRecord]:
    """Outbox records of results; none where they go nowhere."""
    return [] if sink is None else [sink.record_of(output, now) for output in outputs]
