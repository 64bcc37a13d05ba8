"""The async face of a query: built word by word from a log, then run."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from acemq_amqp.durations import Duration
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog import streaming
from acemq_amqp.eventlog.client import LogClient
from acemq_amqp.eventlog.job import QueryWords
from acemq_amqp.eventlog.querying import Querying
from acemq_amqp.eventlog.queue import LogQueue
from acemq_amqp.eventlog.streaming import StreamStatus


class RunningStream:
    """A query that runs. Made by ``Stream.run``; stop it, or use it in an ``async with``."""

    def __init__(self, client: LogClient, querying: Querying) -> None:
        self._client = client
        self._querying = querying

    async def stop(self) -> None:
        """Ends it after the cycle in hand, and sends what it has put out.

        Its leases are free at once; another runner goes on where this one was.
        """
        await streaming.stop(self._client, self._querying)

    async def drain(self, timeout: Duration = 30.0) -> None:
        """Waits until everything is committed that was pushed before the call.

        Windows whose time is not up stay open.

        :param timeout: seconds
        :raises BrokerTimeout: it took longer
        :raises AceMQError: what ended the query
        """
        await streaming.drain(self._client, self._querying, timeout)

    async def status(self) -> StreamStatus:
        """How it is doing."""
        return await streaming.status(self._client, self._querying)

    async def ended(self) -> None:
        """Waits until it is stopped.

        :raises AceMQError: what ended it, where it failed
        """
        await self._querying.ended()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()


class Stream(QueryWords):
    """A query over a log: its windows, state, output and position are committed together.

    ::

        running = await (
            Stream.from_(log.queue("sales"))
            .window_tumbling(seconds=60)
            .aggregate({"count": lambda sale: 1, "sum": lambda sale: sale["amount"]})
            .to(log.queue("totals"))
            .run(query_id="totals")
        )
    """

    def __init__(self, source: LogQueue) -> None:
        super().__init__(source)
        self._client = source.client

    @classmethod
    def from_(cls, source: LogQueue) -> Self:
        """A query that reads a log, from where its ``subscription_mode`` says."""
        if not isinstance(source, LogQueue):
            raise ConfigurationError(
                f"acemq: from_() takes a log (event_log.queue(name)), not a {type(source).__name__}"
            )
        return cls(source)

    async def run(self, **options: Any) -> RunningStream:
        """Runs it in the background: what is pushed from its return on is counted.

        :param options: ``query_id``, under which windows and position are kept; ``batch_size``
            messages of a cycle; ``max_wait_millis``; ``version`` of its functions; ``reset``,
            ``"all"`` or ``"state"``; ``error_limit`` messages in a row that may fail
        :raises ConfigurationError: an unknown option, or a query that has another shape by now
        """
        orders = streaming.orders_of(self._client.url, options)
        job = self.job(orders.version)
        return RunningStream(self._client, await streaming.run(self._client, job, orders))
