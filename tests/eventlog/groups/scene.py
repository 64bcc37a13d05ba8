"""A broker, a store and a flavour: clients over them, handlers that note, and time."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest

import acemq_amqp
from acemq_amqp import Connection
from acemq_amqp import eventlog as awaited
from acemq_amqp.blocking import eventlog as blocking
from acemq_amqp.eventlog import EventLog, LogMessage, LogQueue
from acemq_amqp.eventlog.memory_store import InMemoryLogStore
from acemq_amqp.eventlog.store import Position
from acemq_amqp.flavours.threads import drive
from acemq_stores import SqlLogStore
from tests.contract import threads
from tests.contract.api import arrived
from tests.contract.seen import Gate
from tests.contract.waiting import until
from tests.stores import databases

threads.TWINS |= {
    blocking.Admin: awaited.Admin,
    blocking.EventLog: awaited.EventLog,
    blocking.LogQueue: awaited.LogQueue,
    blocking.Reader: awaited.Reader,
}

_SQLITE = pytest.param("sqlite", marks=pytest.mark.server)
_POSTGRES = pytest.param("postgresql", marks=pytest.mark.server)
#: Where a case runs: the broker and the store in memory; RabbitMQ with SQLite, with PostgreSQL.
in_memory = pytest.mark.parametrize("place", ["memory"])
on_servers = pytest.mark.parametrize("place", ["memory", _SQLITE])
everywhere = pytest.mark.parametrize("place", ["memory", _SQLITE, _POSTGRES])


class Scene:
    """One flavour on one broker and one store.

    :param database: None: in memory, where all clients share one store
    :param cut: ends every connection
    """

    def __init__(
        self,
        flavour: str,
        url: str,
        database: str | None,
        names: Callable[[str], str],
        opened: AsyncExitStack,
        cut: Callable[[], object] | None,
    ) -> None:
        self.flavour = flavour
        self.url = url
        self.database = database
        self.log = names("log")
        self._opened = opened
        self._cut = cut
        self._later = 0.0
        self._clients: dict[Any, EventLog] = {}
        self._shared = InMemoryLogStore(clock=lambda: self._later) if database is None else None

    def store(self) -> Any:
        """A store on the database, closed after the case."""
        if self._shared is not None:
            return self._shared
        store = SqlLogStore(cast(str, self.database))
        self._opened.callback(store.close)
        return store

    async def open(self, store: Any = None) -> EventLog:
        """A client, with a store of its own. Closed after the case."""
        flavour: Any = blocking if self.flavour == "blocking" else awaited
        client: Any = flavour.EventLog(url=self.url, store=store or self.store())
        if self.flavour == "blocking":
            client = threads.Awaited(client)
        self._clients[client._client] = client
        self._opened.push_async_callback(client.close, 10.0)
        return cast(EventLog, client)

    async def queue(self, group: str = "g", mode: Any = "all", count: int = 0) -> LogQueue:
        """The log of this case with so many messages, read by a group one by one."""
        client = await self.open()
        if count:
            await client.queue(self.log).push([{"data": n} for n in range(count)])
        return self.reads(client, group, mode)

    def reads(self, client: EventLog, group: str = "g", mode: Any = "all") -> LogQueue:
        """The log of this case, read by a group one by one."""
        return client.queue(self.log).group(group).subscription_mode(mode).each()

    def client_of(self, queue: LogQueue) -> EventLog:
        """The client that a selection was said to."""
        return self._clients[queue.client]

    async def position(self, group: str, stream: str) -> Position:
        """Where a group stands in the store."""
        position: Position | None = await self.store().position(group, stream)
        assert position is not None
        return position

    async def broker(self) -> Connection:
        """A connection beside those of the clients."""
        mq = await acemq_amqp.connect(self.url)
        self._opened.push_async_callback(mq.close, 5.0)
        return mq

    async def dead_letter(self) -> tuple[bytes, dict[str, Any]]:
        """Waits for the next dead letter of the log, and takes it off: body and headers."""
        letter = await arrived(await self.broker(), f"{self.log}.dlq")
        return letter.body, dict(letter.arrival.properties.headers.values())

    def handler(self, function: Callable[..., Awaitable[Any]]) -> Any:
        """A handler as users of the flavour write it."""
        if self.flavour == "async":
            return function

        @functools.wraps(function)
        def handle(given: Any) -> Any:
            return drive(_coroutine(function(given)))

        del handle.__wrapped__
        return handle

    def noting(self, seen: list[Any]) -> Any:
        """A handler that notes payloads."""

        async def note(given: Any) -> None:
            if isinstance(given, LogMessage):
                seen.append(given.data)
            else:
                seen.append([message.data for message in given])

        return self.handler(note)

    def gate(self) -> Gate:
        """A gate that holds plain handlers; opened after the case at the latest."""
        gate = Gate()
        self._opened.callback(gate.open)
        return gate

    async def cut(self) -> None:
        """An operator ends every connection."""
        if self._cut is None:
            pytest.skip("a broker given by address is not ours to operate")
        await threads.run(self._cut)

    def pass_time(self, seconds: float) -> None:
        """What was leased before has so much less left."""
        self._later += seconds
        if self.database is not None:
            databases.run(
                self.database,
                f"UPDATE acemq_log SET until = until - {seconds} WHERE until > 0",
                f"UPDATE acemq_log_lanes SET until = until - {seconds} WHERE until > 0",
            )


async def has(seen: list[Any], count: int) -> None:
    """Waits until a handler has noted so many."""
    await until(lambda: len(seen) >= count, f"{count} messages handled")


async def _coroutine(answer: Awaitable[Any]) -> Any:
    return await answer
