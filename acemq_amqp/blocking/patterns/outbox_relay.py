"""The blocking face of the relay."""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

from acemq_amqp.blocking.connection import Connection
from acemq_amqp.blocking.patterns.connections import checked_connection
from acemq_amqp.blocking.publisher import Publisher
from acemq_amqp.core.observer import Observer, Observing
from acemq_amqp.durations import Duration, seconds
from acemq_amqp.flavours.threads import ThreadWork
from acemq_amqp.patterns.outbox import OutboxRecord, OutboxStore
from acemq_amqp.patterns.outbox_relay import MOST_PUBLISHERS, Encoded, checked_relay
from acemq_amqp.patterns.relaying import Relaying
from acemq_amqp.patterns.waiting import driven

T = TypeVar("T")


class OutboxRelay:
    """Publishes what is committed to an outbox, each record until the broker confirms it.

    Each is published at least once, and once where no relay dies or is overtaken; always under its
    own id. Records of one ordering key go out in the order of their commits. Any number of relays
    may share a store::

        with OutboxRelay(mq, store):
            ...

    :param connection: what it publishes on
    :param store: where the records are
    :param interval: between looks, while nothing is due
    :param batch: records of a claim; of those without an ordering key as many. A backlog of many
        thousands goes faster in larger ones, such as 500
    :param concurrency: records that are published at once, each of another ordering key
    :param observer: sees what docs/operations.md lists as ``acemq.outbox``; the connection's own
        does not
    :raises ConfigurationError: no outbox store, numbers below 1, or no blocking connection
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
            publisher.send(record.body, envelope=record.envelope, routing_key=record.routing_key)

        pause = checked_relay(store, interval, batch, concurrency)
        self._relaying = Relaying(
            ThreadWork(),
            send,
            store,
            Observing(observer),
            interval=pause,
            batch=batch,
            width=concurrency,
        )

    def start(self) -> None:
        """Publishes from now on, in threads of its own, until closed. What fails is tried again."""
        self._relaying.start()

    def sweep(self) -> int:
        """Publishes once what is due, up to a batch; returns how many records were published.

        Unless it is started as well, it holds nothing afterwards that others would wait for.

        :raises StoreError: the store failed, or is not there
        :raises ConfigurationError: it is closed
        """
        return driven(self._relaying.sweep())

    def wake(self) -> None:
        """Looks at once, and not after the interval. Any thread may call it."""
        self._relaying.wake()

    def close(self, timeout: Duration = 20.0) -> bool:
        """Waits for what is being published, and gives the leases back.

        :param timeout: seconds for that
        :returns: whether it ended in time; what did not is published by another, after the lease
        """
        return driven(self._relaying.close(seconds(timeout, "timeout")))

    def __enter__(self) -> OutboxRelay:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
