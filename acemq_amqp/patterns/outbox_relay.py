"""The relay: publishes what waits in an outbox."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final

from acemq_amqp.core.connection import Connection
from acemq_amqp.core.observer import Observer, Observing
from acemq_amqp.core.publisher import Publisher
from acemq_amqp.durations import Duration, seconds
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.flavours.tasks import TaskWork
from acemq_amqp.patterns.connections import checked_connection
from acemq_amqp.patterns.outbox import OutboxRecord, OutboxStore
from acemq_amqp.patterns.relaying import Relaying

#: Publishers that are kept; one costs nothing to make again.
MOST_PUBLISHERS: Final = 1000


class Encoded:
    """The codec of what is bytes already, under the content type it was encoded with."""

    def __init__(self, content_type: str) -> None:
        self.content_type = content_type

    def encode(self, payload: Any) -> bytes:
        """The bytes themselves."""
        return bytes(payload)

    def decode(self, body: bytes, content_type: str | None = None) -> Any:
        """The bytes themselves."""
        return body

    def can_decode(self, content_type: str | None) -> bool:
        """It reads nothing."""
        return False


def checked_relay(store: Any, interval: Duration, batch: int, concurrency: int) -> float:
    """The interval in seconds.

    :raises ConfigurationError: what a relay cannot work with
    """
    if not isinstance(store, OutboxStore):
        raise ConfigurationError(
            f"acemq: a {type(store).__name__} is no outbox store: it has no claim, renew, "
            "mark_published, record_failure"
        )
    for name, value in (("batch", batch), ("concurrency", concurrency)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigurationError(f"acemq: {name} of a relay is {value!r}: give 1 or more")
    return seconds(interval, "the interval of a relay")


class OutboxRelay:
    """Publishes what is committed to an outbox, each record until the broker confirms it.

    Each is published at least once, and once where no relay dies or is overtaken; always under its
    own id. Records of one ordering key go out in the order of their commits. Any number of relays
    may share a store::

        async with OutboxRelay(mq, store):
            ...

    :param connection: what it publishes on
    :param store: where the records are
    :param interval: between looks, while nothing is due
    :param batch: records of a claim; of those without an ordering key as many. A backlog of many
        thousands goes faster in larger ones, such as 500
    :param concurrency: records that are published at once, each of another ordering key
    :param observer: sees what docs/operations.md lists as ``acemq.outbox``; the connection's own
        does not
    :raises ConfigurationError: no outbox store, numbers below 1, or no async connection
    """

    def __init__(
        self,
        connection: Connection,
        store: OutboxStore,
        *,
        interval: Duration = 1.0,
        batch: int = 100,
        concurrency: int = 100,
        observer: Observer | None = None,
    ) -> None:
        connection = checked_connection(connection)
        publishers: dict[tuple[str, str], Publisher] = {}

        async def send(record: OutboxRecord) -> None:
            place = record.exchange, record.content_type
            publisher = publishers.get(place)
            if publisher is None:
                if len(publishers) >= MOST_PUBLISHERS:
                    publishers.clear()
                codec = Encoded(record.content_type)
                publisher = publishers[place] = connection.publisher(record.exchange, codec=codec)
            await publisher.send(
                record.body, envelope=record.envelope, routing_key=record.routing_key
            )

        pause = checked_relay(store, interval, batch, concurrency)
        self._relaying = Relaying(
            TaskWork(),
            send,
            store,
            Observing(observer),
            interval=pause,
            batch=batch,
            width=concurrency,
        )

    async def start(self) -> None:
        """Publishes from now on, until closed. Whatever fails is tried again."""
        self._relaying.start()

    async def sweep(self) -> int:
        """Publishes once what is due, up to a batch; returns how many records were published.

        Unless it is started as well, it holds nothing afterwards that others would wait for.

        :raises StoreError: the store failed, or is not there
        :raises ConfigurationError: it is closed
        """
        return await self._relaying.sweep()

    def wake(self) -> None:
        """Looks at once, and not after the interval. Any thread may call it."""
        self._relaying.wake()

    async def close(self, timeout: Duration = 20.0) -> bool:
        """Waits for what is being published, and gives the leases back.

        :param timeout: seconds for that
        :returns: whether it ended in time; what did not is published by another, after the lease
        """
        return await self._relaying.close(seconds(timeout, "timeout"))

    async def __aenter__(self) -> OutboxRelay:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
