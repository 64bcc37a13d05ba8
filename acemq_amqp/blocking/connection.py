"""The blocking faces of connection, publisher, consumer and delivery.

Each method drives the core's coroutine of the same name to its end. Any thread may
call any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from acemq_amqp.codec import Codec
from acemq_amqp.core import connection as core
from acemq_amqp.core.catalogue import Difference
from acemq_amqp.core.consumer import Consumer as CoreConsumer
from acemq_amqp.core.health import HealthReport
from acemq_amqp.core.publisher import Publisher as CorePublisher
from acemq_amqp.core.publishing import PublishResult
from acemq_amqp.core.pulling import Delivery as CoreDelivery
from acemq_amqp.durations import Duration
from acemq_amqp.envelope import Envelope
from acemq_amqp.errors import BrokerError
from acemq_amqp.flavours.threads import drive
from acemq_amqp.message import Message
from acemq_amqp.retry import RetryPolicy
from acemq_amqp.topology import Topology


class Publisher:
    """Sends messages to one place. Made by ``Connection.publisher``; any thread may use it.

    A send that returns was confirmed by the broker. One that raises says which of the
    other outcomes it had: refused, or unknown.
    """

    def __init__(self, publisher: CorePublisher) -> None:
        self._core = publisher

    def __repr__(self) -> str:
        return repr(self._core)

    @property
    def exchange(self) -> str:
        """Where it publishes to; ``""`` addresses queues by their name."""
        return self._core.exchange

    @property
    def routing_key(self) -> str:
        """The key that is used where a send names none."""
        return self._core.routing_key

    def send(
        self,
        payload: Any,
        *,
        envelope: Envelope | None = None,
        routing_key: str | None = None,
        headers: Mapping[str, Any] | None = None,
        reply_to: str = "",
        priority: int | None = None,
        expiration: Duration | None = None,
    ) -> PublishResult:
        """Sends one message and returns once the broker has confirmed it.

        While the link is down or the broker has paused publishing it waits up to the
        connection's ``timeout``. An outcome that is unknown is repeated with the same id
        within that time unless the connection has ``retry_unknown=False``; that can double
        and re-order.

        :param envelope: identity and history other than a fresh one's
        :param headers: the application's headers, beside the envelope's own
        :param priority: 0 to 255
        :param expiration: how long it may wait in a queue, at least 1 ms
        :raises ConfigurationError: something in it cannot travel; nothing was sent
        :raises EncodeError: the codec cannot write the payload; nothing was sent
        :raises PublishRefused: the broker did not take it (``PublishingPaused``: it takes none now)
        :raises PublishUnknown: it may have been stored
        """
        return drive(
            self._core.send(
                payload,
                envelope=envelope,
                routing_key=routing_key,
                headers=headers,
                reply_to=reply_to,
                priority=priority,
                expiration=expiration,
            )
        )

    def send_many(
        self, payloads: Iterable[Any], *, routing_key: str | None = None
    ) -> list[PublishResult]:
        """Sends many messages, pipelined and in order, and returns once all are confirmed.

        Every payload is checked and encoded before the first one is sent.

        :raises ConfigurationError: one of them cannot travel; none was sent
        :raises EncodeError: the codec cannot write one of them; none was sent
        :raises BatchError: some were not confirmed; ``.outcomes`` has one outcome per payload
        """
        return drive(self._core.send_many(payloads, routing_key=routing_key))


class Consumer:
    """Messages of one queue, handed to one handler. Made by ``Connection.consume``.

    Every delivery is settled exactly once, however its handler ends.
    """

    def __init__(self, consumer: CoreConsumer) -> None:
        self._core = consumer

    def __repr__(self) -> str:
        return repr(self._core)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Consumer) and other._core is self._core

    def __hash__(self) -> int:
        return hash(self._core)

    @property
    def queue(self) -> str:
        """What it reads."""
        return self._core.queue

    @property
    def closed(self) -> bool:
        """Whether it has stopped for good: closed here, or ended by the broker (see ``error``)."""
        return self._core.closed

    @property
    def running(self) -> bool:
        """Whether the broker has confirmed it and delivers to it now."""
        return self._core.running

    @property
    def in_flight(self) -> int:
        """Handlers that are running."""
        return self._core.in_flight

    @property
    def unsettled(self) -> int:
        """Deliveries answered and not settled yet: held for a wait, or on their way elsewhere."""
        return self._core.unsettled

    @property
    def stalled(self) -> bool:
        """Whether every delivery it may have waits to be settled elsewhere."""
        return self._core.stalled

    @property
    def error(self) -> BrokerError | None:
        """Why the broker ended it for good, else None."""
        return self._core.error

    def close(self, timeout: Duration = 20.0) -> bool:
        """Stops: no handler starts, running ones finish, what was not started is given back.

        :param timeout: seconds for all of it; stragglers are cancelled (async) or abandoned
            (blocking) afterwards, and their messages left to the broker
        :returns: whether everything ended in time. Called from inside its own handler it only
            starts the stop, and returns False
        """
        return drive(self._core.close(timeout))

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Delivery:
    """A pulled message. Unsettled, it goes back to its queue when the connection closes."""

    def __init__(self, delivery: CoreDelivery) -> None:
        self._core = delivery

    def __repr__(self) -> str:
        return repr(self._core)

    @property
    def queue(self) -> str:
        """Where it was pulled from."""
        return self._core.queue

    @property
    def body(self) -> bytes:
        """The bytes as they came."""
        return self._core.body

    @property
    def headers(self) -> Mapping[str, Any]:
        """Every header, the library's included."""
        return self._core.headers

    @property
    def properties(self) -> Any:
        """The basic properties as they came."""
        return self._core.properties

    @property
    def exchange(self) -> str:
        """The exchange it came through last."""
        return self._core.exchange

    @property
    def routing_key(self) -> str:
        """The key it came with last."""
        return self._core.routing_key

    @property
    def redelivered(self) -> bool:
        """Whether it was delivered before."""
        return self._core.redelivered

    def message(self) -> Message:
        """As a handler would see it, with the body as payload."""
        return self._core.message()

    def ack(self) -> bool:
        """Takes it off the queue; False where it was settled before or its channel is gone."""
        return drive(self._core.ack())

    def requeue(self) -> bool:
        """Puts it back; False as :meth:`ack`."""
        return drive(self._core.requeue())


class Connection:
    """A connection to a broker that comes back by itself.

    Publishers and consumers made from it live as long as it does. Made by :func:`connect`.
    """

    def __init__(self, connection: core.Connection) -> None:
        self._core = connection

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
            )
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
        :param args: consumer arguments, such as ``x-priority``
        :param declare: declare the queues a failed message goes to
        :param single_active: the queue has a single active consumer; checked by an equal declare
        :param max_deliveries: park a message that was delivered so often without an answer
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
        """Whether the broker has it."""
        return drive(self._core.queue_exists(queue))

    def message_count(self, queue: str) -> int:
        """Messages that are ready in it.

        :raises NotFound: there is no such queue
        """
        return drive(self._core.message_count(queue))

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

        :raises NotFound: there is no such queue
        """
        pulled = drive(self._core.pull(queue))
        return None if pulled is None else Delivery(pulled)

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
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
