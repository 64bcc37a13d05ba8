"""What an event log's client keeps: its connection, the logs it has looked up, pops, and a relay.

Everything is made at first use, one thing at a time, so that building one does no I/O.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from inspect import signature
from typing import Any, TypeAlias

from acemq_amqp.core.connection import Connection
from acemq_amqp.core.observer import Observing
from acemq_amqp.core.publisher import Publisher
from acemq_amqp.errors import BrokerError, ConfigurationError, StoreError
from acemq_amqp.eventlog.attached import Gaps, Source
from acemq_amqp.eventlog.choices import checked
from acemq_amqp.eventlog.decoding import Decoding
from acemq_amqp.eventlog.log import Log
from acemq_amqp.eventlog.modes import Mode
from acemq_amqp.eventlog.moving import Place
from acemq_amqp.eventlog.popping import Popping
from acemq_amqp.eventlog.reading import Reading
from acemq_amqp.eventlog.running import Running
from acemq_amqp.eventlog.selection import Selection
from acemq_amqp.eventlog.settings import LogSettings
from acemq_amqp.eventlog.store import LogStore
from acemq_amqp.naming import dead_letter_queue
from acemq_amqp.patterns.outbox import OutboxRecord
from acemq_amqp.patterns.outbox_relay import Encoded
from acemq_amqp.patterns.relaying import Relaying, counts_as_attempt
from acemq_amqp.topology import Topology

#: The relay looks so often by itself, in seconds; it is woken when there is something.
_INTERVAL = 1.0
_BATCH = 200
_WIDTH = 64

_Target: TypeAlias = tuple[str, str]


def connection_options(options: Mapping[str, Any], connect: Callable[..., Any]) -> dict[str, Any]:
    """What a client of event logs was given for its connection.

    :raises ConfigurationError: an option that ``connect`` does not take
    """
    return checked(options, signature(connect).parameters, "EventLog()")


class LogClient:
    """The core of an event log's client, under both faces.

    :param url: where the broker is
    :param connecting: opens the connection
    :param turn: lets one caller in at a time
    :param store: where positions and windows are kept
    :raises ConfigurationError: that is no store of event logs
    """

    def __init__(
        self,
        url: str | Sequence[str],
        connecting: Callable[[], Awaitable[Connection]],
        turn: AbstractAsyncContextManager[Any],
        store: Any,
    ) -> None:
        if not isinstance(store, LogStore):
            raise ConfigurationError(
                f"acemq: a {type(store).__name__} is no store of event logs: give "
                "acemq_stores.SqlLogStore(...), or acemq_amqp.eventlog.InMemoryLogStore() in a test"
            )
        self.url = url
        self.store: LogStore = store
        self._connecting = connecting
        self._turn = turn
        self._connection: Connection | None = None
        self._logs: dict[tuple[str, int | None], Log] = {}
        self._popping: dict[tuple[str, str], Popping] = {}
        self._relaying: Relaying | None = None
        #: by exchange and routing key, why the last record was not taken there
        self._refused: dict[_Target, str] = {}
        self._running: list[Running] = []
        self._closed = False
        self._written = False

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed

    # ------------------------------------------------------------ parts, made at first use

    async def connection(self) -> Connection:
        """The connection.

        :raises ConfigurationError: this client is closed
        :raises BrokerError: there is no broker
        """
        async with self._turn:
            if self._closed:
                raise ConfigurationError("acemq: this event log's client is closed; make a new one")
            if self._connection is None:
                self._connection = await self._connecting()
            return self._connection

    async def log(self, name: str, settings: LogSettings, *, create: bool = True) -> Log:
        """A log, looked up and made where it is not there.

        :raises NotFound: it is not there, and is not to be made
        """
        connection = await self.connection()
        async with self._turn:
            key = name, settings.streams
            log = self._logs.get(key)
            if log is None:
                log = Log(connection, name, streams=settings.streams, retention=settings.retention)
                await log.ready(create)
                self._logs[key] = log
            return log

    async def reading(
        self, name: str, group: str, mode: Mode, settings: LogSettings, *, create: bool = False
    ) -> Reading:
        """A group of a log.

        :raises NotFound: the log is not there, and is not to be made
        """
        connection = await self.connection()
        log = await self.log(name, settings, create=create)
        if settings.dead_letters:
            await self._dead_letters(connection, name)
        source = Source(connection, log, Gaps(settings.on_gap))
        store = self.store
        if settings.lease_time is not None:
            store = store.leasing(settings.lease_time)
        decoding = Decoding(connection)
        return Reading(source, store, group, mode, settings, decoding, self.wake)

    async def popping(self, selection: Selection) -> Popping:
        """The pops of a group in this process."""
        key = selection.name, selection.grouped()
        found = self._popping.get(key)
        if found is not None:
            return found
        reading = await self.reading(*key, selection.mode, selection.settings)
        await self.relay()
        return self._popping.setdefault(key, Popping(reading))

    def popped(self, name: str, group: str) -> Popping | None:
        """The pops that a message came from; None where there were none."""
        return self._popping.get((name, group))

    async def place(self, name: str) -> Place:
        """A log, to look at its groups or move them.

        :raises NotFound: there is no such log
        """
        log = await self.log(name, LogSettings(), create=False)
        return Place(await self.connection(), log, self.store)

    # ------------------------------------------------------------ output

    async def relay(self) -> Relaying:
        """What publishes the store's outbox: dead letters and closed windows. It runs."""
        connection = await self.connection()
        async with self._turn:
            if self._relaying is None:
                self._relaying = Relaying(
                    connection.work,
                    _sending(connection, self._refused),
                    self.store.outbox,
                    Observing(None),
                    interval=_INTERVAL,
                    batch=_BATCH,
                    width=_WIDTH,
                )
                self._relaying.start()
            return self._relaying

    async def send_out(self) -> None:
        """Publishes what waits in the outbox by now; what cannot be sent waits for any relay."""
        relay = await self.relay()
        with suppress(BrokerError, StoreError):
            while await relay.sweep() >= _BATCH:
                pass

    def refusal(self, targets: Iterable[_Target]) -> str:
        """Why one of these places did not take what was sent last; ``""`` where all did."""
        return next((self._refused[each] for each in targets if each in self._refused), "")

    def wake(self) -> None:
        """Has the relay send at once what was written. Any thread."""
        self._written = True
        if self._relaying is not None:
            self._relaying.wake()

    async def _dead_letters(self, connection: Connection, log: str) -> None:
        """Declares the queue of a log's dead letters."""
        await connection.declare(Topology().queue(dead_letter_queue(log)))

    # ------------------------------------------------------------ coming and going

    def runs(self, reader: Running) -> None:
        """A reader that is stopped when the client is closed."""
        self._running = [each for each in self._running if not each.over]
        self._running.append(reader)

    async def forget(self, name: str) -> None:
        """Forgets what is known of a log that is deleted."""
        for key in [key for key in self._popping if key[0] == name]:
            await self._popping.pop(key).close()
        for known in [known for known in self._logs if known[0] == name]:
            del self._logs[known]

    async def close(self, timeout: float) -> bool:
        """Stops readers after what they are at, gives back what was popped, and closes.

        :returns: whether all ended in time
        """
        self._closed = True
        connection = self._connection
        if connection is None:
            return True
        deadline = connection.work.clock.monotonic() + timeout
        for reader in self._running:
            reader.stop()
        ended = all([await reader.left(deadline) for reader in self._running])
        for popping in self._popping.values():
            await popping.close()
        if self._relaying is not None:
            if self._written:
                with suppress(BrokerError, StoreError):  # it waits there, for any relay
                    await self._relaying.sweep()
            left = max(0.1, deadline - connection.work.clock.monotonic())
            ended = await self._relaying.close(left) and ended
        left = max(0.1, deadline - connection.work.clock.monotonic())
        return await connection.close(left) and ended


def _sending(
    connection: Connection, refused: dict[_Target, str]
) -> Callable[[OutboxRecord], Awaitable[object]]:
    publishers: dict[tuple[str, str], Publisher] = {}

    async def send(record: OutboxRecord) -> object:
        place = record.exchange, record.content_type
        publisher = publishers.get(place)
        if publisher is None:
            codec = Encoded(record.content_type)
            publisher = publishers[place] = connection.publisher(record.exchange, codec=codec)
        target = record.exchange, record.routing_key
        try:
            result = await publisher.send(
                record.body, envelope=record.envelope, routing_key=record.routing_key
            )
        except Exception as failure:
            if counts_as_attempt(failure):
                refused[target] = str(failure)
            raise
        refused.pop(target, None)
        return result

    return send
