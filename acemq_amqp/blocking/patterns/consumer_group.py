"""The blocking face of a consumer group: each method drives the coroutine of the same name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from acemq_amqp.blocking.connection import Connection
from acemq_amqp.blocking.consumer import Consumer
from acemq_amqp.blocking.patterns.connections import checked_connection
from acemq_amqp.codec import Codec
from acemq_amqp.durations import Duration
from acemq_amqp.flavours.threads import drive
from acemq_amqp.message import Message
from acemq_amqp.patterns.consumer_counters import ConsumerCounters
from acemq_amqp.patterns.consumer_group import ConsumerGroup as CoreGroup
from acemq_amqp.retry import RetryPolicy


class ConsumerGroup:
    """Consumers of one queue. Made by :meth:`start`; use it in a ``with``, or close it::

        with ConsumerGroup.start(mq, "orders", 4, handle) as group:
            group.scale_to(8)

    One that is built by hand, of consumers that run, can only be looked at and closed.
    """

    def __init__(self, queue: str, consumers: Iterable[Consumer]) -> None:
        self._group = CoreGroup(queue, [consumer._core for consumer in consumers])

    @classmethod
    def start(
        cls,
        connection: Connection,
        queue: str,
        size: int,
        handler: Callable[[Message], Any],
        *,
        codec: Codec | None = None,
        retry: RetryPolicy | None = None,
        prefetch: int | None = None,
        concurrency: int = 1,
        tag: str = "",
        args: Any = None,
        declare: bool = True,
    ) -> ConsumerGroup:
        """Starts so many consumers over one queue: all of them, or none is left.

        :param size: how many consumers
        :param handler: what each does with a message, as in ``Connection.consume``
        :param codec: other than the connection's
        :param retry: a policy other than the connection's
        :param prefetch: unsettled deliveries of each at most; the connection's by default
        :param concurrency: handlers that run at once in each
        :param tag: what the broker calls them, each with its number: ``{tag}-1`` and so on;
            ``acemq-{queue}`` by default
        :param args: consumer arguments, such as ``x-priority``
        :param declare: declare the queues a failed message goes to
        :raises ConfigurationError: a size below 1, or parameters that do not go together
        :raises NotFound: there is no such queue
        """
        group = cls(queue, ())
        group._group = drive(
            CoreGroup.start(
                checked_connection(connection)._core,
                queue,
                size,
                handler,
                codec=codec,
                retry=retry,
                prefetch=prefetch,
                concurrency=concurrency,
                tag=tag,
                args=args,
                declare=declare,
            )
        )
        return group

    def __repr__(self) -> str:
        return repr(self._group)

    @property
    def queue(self) -> str:
        """What it reads."""
        return self._group.queue

    @property
    def size(self) -> int:
        """How many consumers it has."""
        return self._group.size

    @property
    def prefetch(self) -> int | None:
        """Unsettled deliveries of each at most; None where it is the connection's."""
        return self._group.prefetch

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._group.closed

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        """Its consumers, by number."""
        return tuple(Consumer(each) for each in self._group.consumers)

    @property
    def counters(self) -> tuple[ConsumerCounters, ...]:
        """What each of its consumers has done since the group was started, by number."""
        return self._group.counters

    def scale_to(self, size: int) -> None:
        """Starts or closes consumers until there are so many; the highest numbers go first.

        One that is closed finishes the handlers that run. A number that is taken again goes on
        with its counters.

        :raises ConfigurationError: a size below 1, or the group is closed
        :raises BrokerError: one could not be started; those that this call started are closed
        """
        drive(self._group.scale_to(size))

    def set_prefetch(self, prefetch: int) -> None:
        """Gives each another prefetch while messages go on: its successor starts, then it closes.

        :param prefetch: unsettled deliveries of each at most
        :raises ConfigurationError: out of range or below the concurrency, or the group is closed
        :raises BrokerError: a successor could not be started; the group goes on as it was
        """
        drive(self._group.set_prefetch(prefetch))

    def close(self, timeout: Duration | None = None) -> bool:
        """Closes every consumer, all at once, and waits for the handlers that run.

        All are closed even where one fails; the first failure is raised afterwards.

        :param timeout: seconds for each, as in ``Consumer.close``; its default where None
        :returns: whether everything ended in time. Called from inside one of its own handlers
            it only starts the stop, and returns False
        """
        return drive(self._group.close(timeout))

    def __enter__(self) -> ConsumerGroup:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
