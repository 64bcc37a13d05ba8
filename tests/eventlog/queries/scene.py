"""A broker, a store and a flavour, and what cases do with them: queries run, events pushed at any
time, results looked at from beside."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any, NamedTuple, cast

import pytest

from acemq_amqp import Connection, Envelope
from acemq_amqp import eventlog as awaited
from acemq_amqp.blocking import eventlog as blocking
from acemq_amqp.core.connection import Connection as CoreConnection
from acemq_amqp.eventlog import EventLog, LogQueue, RunningStream, Stream, WindowInfo
from acemq_amqp.eventlog.log import Log
from acemq_amqp.eventlog.memory_store import InMemoryLogStore
from acemq_amqp.eventlog.records import lane_headers
from acemq_stores import SqlLogStore
from tests.contract import threads
from tests.contract.waiting import until
from tests.eventlog.stories import messages
from tests.stores import databases

threads.TWINS |= {
    blocking.EventLog: awaited.EventLog,
    blocking.LogQueue: awaited.LogQueue,
    blocking.Stream: awaited.Stream,
    blocking.RunningStream: awaited.RunningStream,
}

_SQLITE = pytest.param("sqlite", marks=pytest.mark.server)
_POSTGRES = pytest.param("postgresql", marks=pytest.mark.server)
#: Where a case runs: the broker and the store in memory; RabbitMQ with SQLite, with PostgreSQL.
in_memory = pytest.mark.parametrize("place", ["memory"])
with_sqlite = pytest.mark.parametrize("place", ["memory", _SQLITE])
with_both = pytest.mark.parametrize("place", ["memory", _SQLITE, _POSTGRES])
with_postgres = pytest.mark.parametrize("place", ["memory", _POSTGRES])

#: A publish time long ago, at the beginning of a minute and an hour.
THEN = 1_700_002_800.0


class Event(NamedTuple):
    """What is pushed: after THEN by so many seconds."""

    lane: str
    payload: Any
    after: float = 0.0


class Result(NamedTuple):
    """What a query put out."""

    lane: str
    data: Any
    window: WindowInfo | None

    @property
    def span(self) -> tuple[float, float]:
        """The window, from THEN on."""
        assert self.window is not None
        return self.window.start - THEN, self.window.end - THEN


class Hooked:
    """A store that tells when it writes."""

    hook: Callable[[str], None] = staticmethod(lambda step: None)

    async def commit(self, *given: Any) -> bool:
        self.hook("committing")
        done: bool = await super().commit(*given)  # type: ignore[misc]
        self.hook("committed")
        return done


class HookedMemory(Hooked, InMemoryLogStore):
    """In memory."""


class HookedSql(Hooked, SqlLogStore):
    """In a database."""


class Scene:
    """One flavour on one broker and one store.

    :param database: None: in memory, where all clients share one store
    """

    def __init__(
        self,
        flavour: str,
        url: str,
        database: str | None,
        names: Callable[[str], str],
        mq: Connection,
        opened: AsyncExitStack,
        end_connections: Callable[[], object],
    ) -> None:
        self.flavour = flavour
        self.url = url
        self.database = database
        self.name = names
        self.mq = mq
        self._opened = opened
        self._end_connections = end_connections
        self._later = 0.0
        self._shared = HookedMemory(clock=lambda: self._later) if database is None else None
        self.stores: list[Any] = []

    # ------------------------------------------------------------ clients

    async def open(self, **options: Any) -> EventLog:
        """A client, with a store of its own on the same database. Closed after the case."""
        store: Any = self._shared
        if store is None:
            store = HookedSql(cast(str, self.database))
            self._opened.callback(store.close)
        self.stores.append(store)
        flavour: Any = blocking if self.flavour == "blocking" else awaited
        client: Any = flavour.EventLog(url=self.url, store=store, **options)
        if self.flavour == "blocking":
            client = threads.Awaited(client)
        self._opened.push_async_callback(client.close, 10.0)
        return cast(EventLog, client)

    @property
    def store(self) -> Any:
        """The store of the client that was opened last."""
        return self.stores[-1]

    def stream(self, source: LogQueue) -> Stream:
        """A query over a log."""
        if self.flavour == "blocking":
            return cast(Stream, threads.Awaited(blocking.Stream.from_(as_given(source))))
        return Stream.from_(source)

    def pass_time(self, seconds: float) -> None:
        """What was leased before has so much less left."""
        self._later += seconds
        if self.database is not None:
            sql = f"UPDATE acemq_log SET until = until - {seconds} WHERE until > 0"
            databases.run(self.database, sql)

    async def end_connections(self) -> None:
        """An operator ends every connection."""
        await threads.run(self._end_connections)

    # ------------------------------------------------------------ events and results

    async def push(self, log: str, events: Iterable[Event]) -> None:
        """Appends events as if they had been pushed long ago."""
        place = Log(cast(CoreConnection, self.mq), log)
        await place.ready()
        by_stream: dict[str, list[Event]] = {}
        for event in events:
            by_stream.setdefault(place.stream_of(event.lane), []).append(event)
        for stream, some in by_stream.items():
            told = [lane_headers(each.lane, THEN + each.after) for each in some]
            await self.mq.publisher("", stream).send_many(
                [each.payload for each in some],
                envelopes=[Envelope(headers=headers) for headers in told],
            )

    async def results(self, log: str) -> list[Result]:
        """What stands in a log, in order."""
        if not await self.mq.queue_exists(log):
            return []
        found = await messages(cast(CoreConnection, self.mq), log)
        return [Result(each.lane, json.loads(each.arrival.body), each.window) for each in found]

    async def resulted(self, log: str, count: int) -> list[Result]:
        """Waits for so many results, and gives them."""

        async def enough() -> list[Result] | None:
            found = await self.results(log)
            return found if len(found) >= count else None

        found: list[Result] = await until(enough, f"{count} results in {log}")
        assert len(found) == count, found
        return found

    async def pulled(self, queue: str, count: int) -> list[Any]:
        """Waits for so many messages in a queue, and takes them off: (payload, headers)."""
        found: list[Any] = []

        async def enough() -> bool:
            while (delivery := await self.mq.pull(queue)) is not None:
                found.append((json.loads(delivery.body), dict(delivery.headers)))
                await delivery.ack()
            return len(found) >= count

        await until(enough, f"{count} messages in {queue}")
        assert len(found) == count, found
        return found


def as_given(face: Any) -> Any:
    """What a user of the flavour would hand over."""
    return face._inner if isinstance(face, threads.Awaited) else face


async def in_state(running: RunningStream, state: str) -> Any:
    """Waits until a query is in a state, and gives its status."""

    async def there() -> Any:
        status = await running.status()
        return status if status.state == state else None

    return await until(there, f"a query that is {state}")


async def behind(running: RunningStream, messages: int) -> bool:
    """Whether a query is so many messages behind."""
    lag = (await running.status()).lag
    return lag is not None and lag.messages == messages
