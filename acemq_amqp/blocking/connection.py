"""The blocking face of a connection.

Each method drives the core's coroutine of the same name to its end. Any thread may
call any of them.
"""

from __future__ import annotations

import atexit
import warnings
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from acemq_amqp.blocking.consumer import Consumer
from acemq_amqp.blocking.delivery import Delivery
from acemq_amqp.blocking.publisher import Publisher
from acemq_amqp.codec import Codec
from acemq_amqp.core import connection as core
from acemq_amqp.core.catalogue import Difference
from acemq_amqp.core.health import HealthReport
from acemq_amqp.core.ports import BrokerInfo
from acemq_amqp.core.stopping import FORGOTTEN, LEFT_OPEN
from acemq_amqp.durations import Duration
from acemq_amqp.flavours.threads import drive
from acemq_amqp.message import Message
from acemq_amqp.retry import RetryPolicy
from acemq_amqp.topology import Topology


class Connection:
    """A connection to a broker that comes back by itself.

    Publishers and consumers made from it live as long as it does. Made by :func:`connect`.
    """

    def __init__(self, connection: core.Connection) -> None:
        self._core = connection
        self._told = False
        _faces.add(self)

    def __repr__(self) -> str:
        return repr(self._core)

    @classmethod
    def open(cls, url: str | Sequence[str], **options: Any) -> Connection:
        """The same as :func:`connect`."""
        from acemq_amqp.blocking.connecting import connect

        return connect(url, **options)

    @property
    def codec(self) -> Codec:
        """The codec of publishers and consumers that name no other."""
        return self._core.codec

    @property
    def origin(self) -> str:
        """``service@host``, written into every message."""
        return self._core.origin

    @property
    def retry(self) -> RetryPolicy:
        """The policy of consumers that name no other."""
        return self._core.retry

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        """The consumers that have not stopped."""
        return tuple(Consumer(consumer) for consumer in self._core.consumers)

    @property
    def closed(self) -> bool:
        """Whether it was closed here."""
        return self._core.closed

    @property
    def blocked(self) -> bool:
        """Whether the broker has paused publishing."""
        return self._core.blocked

    @property
    def blocked_reason(self) -> str | None:
        """The broker's words while it has paused publishing, else None."""
        return self._core.blocked_reason

    @property
    def outstanding(self) -> int:
        """Messages handed over and not confirmed yet."""
        return self._core.outstanding

    @property
    def broker(self) -> BrokerInfo | None:
        """What the broker says of itself, and as whom this side is logged in; None while down."""
        return self._core.broker

    def publisher(
        self,
        exchange: str = "",
        routing_key: str = "",
        *,
        codec: Codec | None = None,
        persistent: bool = True,
        mandatory: bool | None = None,
    ) -> Publisher:
        """A publisher to one place. Costs nothing and needs no closing.

        :param exchange: ``""`` addresses queues by name
        :param mandatory: whether a message that no queue takes is an error; by default it is
            when queues are addressed, and is told by ``PublishResult.routed`` otherwise
        :raises ConfigurationError: a name that cannot travel
        """
        return Publisher(
            self._core.publisher(
                exchange, routing_key, codec=codec, persistent=persistent, mandatory=mandatory
            ),
            self,
        )

    def consume(
        self,
        queue: str,
        handler: Callable[[Message], Any],
        *,
        codec: Codec | None = None,
        retry: RetryPolicy | None = None,
        prefetch: int | None = None,
        concurrency: int = 1,
        tag: str = "",
        args: Any = None,
        declare: bool = True,
        single_active: bool = False,
        max_deliveries: int = 10,
        spill: bool = True,
        inline: bool = False,
    ) -> Consumer:
        """Hands the messages of a queue to a handler, on worker threads, until closed.

        A handler returns ``accept()``, ``retry()``, ``reject()``, ``park()``, or None for accept;
        an exception means ``retry``. Failed messages are tried again as ``retry`` says, then
        dead-lettered to ``{queue}.dlq``; what cannot be decoded is parked in ``{queue}.parked``.

        :param prefetch: unsettled deliveries at most; the connection's by default
        :param concurrency: handlers that run at once
        :param tag: what the broker calls the consumer; its own choice by default
        :param args: consumer arguments, such as ``x-priority``; ``x-stream-offset`` says where a
            stream is begun, each time that the consumer is attached, after a lost connection too
        :param declare: declare the queues a failed message goes to; else no wait goes to another
        :param single_active: the queue has a single active consumer; checked by an equal declare
        :param max_deliveries: park a message that was delivered so often without an answer; of a
            single active queue only a quorum queue's, and with ``prefetch=1``: its order is kept
        :param spill: waits past half the prefetch go to a queue of the broker
        :param inline: keep a plain function on the event loop (async flavour)
        :raises ConfigurationError: parameters that do not go together
        :raises NotFound: there is no such queue
        :raises DeclarationMismatch: the queue or a failure queue exists with other arguments
        """
        return Consumer(
            drive(
                self._core.consume(
                    queue,
                    handler,
                    codec=codec,
                    retry=retry,
                    prefetch=prefetch,
                    concurrency=concurrency,
                    tag=tag,
                    args=args,
                    declare=declare,
                    single_active=single_active,
                    max_deliveries=max_deliveries,
                    spill=spill,
                    inline=inline,
                )
            )
        )

    def declare(self, topology: Topology) -> None:
        """Declares everything in a topology, and again after every lost connection.

        :raises DeclarationMismatch: an object exists with other arguments
        """
        drive(self._core.declare(topology))

    def verify(self, topology: Topology) -> list[Difference]:
        """Compares a topology with the broker; an empty list means equal. Creates nothing."""
        return drive(self._core.verify(topology))

    def queue_exists(self, queue: str) -> bool:
        """Whether the broker has it, be it another connection's alone."""
        return drive(self._core.queue_exists(queue))

    def message_count(self, queue: str) -> int:
        """Messages that are ready in it.

        :raises NotFound: there is no such queue
        """
        return drive(self._core.message_count(queue))

    def consumer_count(self, queue: str) -> int:
        """Consumers that it has, of whatever connection.

        :raises NotFound: there is no such queue
        """
        return drive(self._core.consumer_count(queue))

    def delete_queue(self, queue: str) -> int:
        """Deletes it with its messages, whose number is returned. 0 where it did not exist."""
        return drive(self._core.delete_queue(queue))

    def purge(self, queue: str) -> int:
        """Drops the ready messages in it, and returns how many.

        :raises NotFound: there is no such queue
        """
        return drive(self._core.purge(queue))

    def pull(self, queue: str) -> Delivery | None:
        """Takes one message, undecoded; None where the queue is empty.

        Where its caller is cancelled the message goes back.

        :raises NotFound: there is no such queue
        """
        pulled = drive(self._core.pull(queue))
        return None if pulled is None else Delivery(pulled, self)

    def health(self, timeout: Duration = 3.0) -> HealthReport:
        """Asks the broker something within a deadline, and compares what is with what should be."""
        return drive(self._core.health(timeout))

    def run(self) -> None:
        """Works until SIGTERM or SIGINT, then drains and closes; a second signal forces.

        :raises ConsumerEnded: a consumer was ended by the broker and could not be brought back
        """
        drive(self._core.run())

    def close(self, timeout: Duration = 20.0) -> bool:
        """Stops consumers, waits for running handlers and for confirms, and closes.

        :param timeout: seconds for all of it
        :returns: whether everything ended in time; what did not is left to the broker
        """
        return drive(self._core.close(timeout))

    def __enter__(self) -> Connection:
        drive(self._core.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        drive(self._core.__aexit__(kind, error, trace))

    def __del__(self) -> None:
        """Warns where nobody closed it; publishers and consumers that are left keep it open."""
        if hasattr(self, "_core"):
            self._left()

    def _left(self) -> None:
        core = self._core
        if core.closed or self._told or not core.work.here():
            return
        self._told = True
        if core.consumers:
            warnings.warn(FORGOTTEN, ResourceWarning, source=self, stacklevel=3)
        else:
            core.forsake()
            warnings.warn(LEFT_OPEN, ResourceWarning, source=self, stacklevel=3)


#: Those in the hands of users. At the end of a process not all of them are collected.
_faces: weakref.WeakSet[Connection] = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    for face in list(_faces):
        face._left()
