"""The async client of event logs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from acemq_amqp.connecting import Connection, connect
from acemq_amqp.durations import Duration, seconds
from acemq_amqp.eventlog import verbs
from acemq_amqp.eventlog.client import LogClient, connection_options
from acemq_amqp.eventlog.messages import LogMessage
from acemq_amqp.eventlog.moving import GroupStatus, Moved
from acemq_amqp.eventlog.queue import LogQueue


class Admin:
    """What operators do with groups."""

    def __init__(self, client: LogClient) -> None:
        self._client = client

    async def consumer_groups(self, queue: str) -> list[GroupStatus]:
        """The groups of a log: where each stands, who reads, and how far behind it is.

        :raises NotFound: there is no such log
        """
        return await verbs.groups(self._client, queue)

    async def seek_consumer_group(
        self, group: str, queue: str, options: Mapping[str, Any]
    ) -> list[Moved]:
        """Moves a group, and abandons what it has in flight.

        :param options: one of ``timestamp`` (aware; a datetime or ISO text), ``offset``, ``to``
            (``"first"``, ``"next"``), ``back``; ``partition`` for one lane; ``dry_run``
        :returns: what moved in each stream, or would move
        :raises ConfigurationError: an unknown option, a time without a zone, a place outside
        """
        return await verbs.seek(self._client, queue, group, options)


class EventLog:
    """Logs on one broker, with cursors in one database. Building it does no I/O.

    Close it, or use it in an ``async with``::

        async with EventLog(url="amqp://localhost", store=SqlLogStore("sqlite:///app.db")) as log:
            await log.queue("orders").partition("acme").push({"data": {"total": 3}})

    :param url: as for ``connect``
    :param store: where positions, windows and output are kept: ``acemq_stores.SqlLogStore``
    :param options: as for ``connect``
    :raises ConfigurationError: an option that cannot be, or no store
    """

    def __init__(self, *, url: str | Sequence[str], store: Any, **options: Any) -> None:
        connecting = connect(url, **connection_options(options, connect))

        async def opened() -> Connection:
            return await connecting

        self._client = LogClient(url, opened, asyncio.Lock(), store)
        self.admin = Admin(self._client)

    def queue(self, name: str) -> LogQueue:
        """A log, to say more about."""
        return LogQueue(self._client, name)

    async def ack(
        self,
        message: LogMessage | Sequence[LogMessage],
        handled: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Acknowledges what was popped, so that its lane moves past it.

        :param handled: False gives it back, to be tried again or given up as ``retry_limit`` says
        :param options: ``group``, which a message knows, and ``error``
        :raises LeaseLost: it is another reader's by now, or the group was sought
        :raises ConfigurationError: another group than the one it was popped for
        """
        await verbs.ack(self._client, message, handled, options)

    async def close(self, timeout: Duration = 20.0) -> bool:
        """Ends readers after what they are at, and closes.

        :returns: whether all ended in time
        """
        return await self._client.close(seconds(timeout, "timeout"))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
