"""One consumer on a channel of its own.

Its receiver is in place before the consumer is asked for, so a delivery that comes
with the broker's consent, or before it, is not lost. The channel is closed without
cancelling the consumer first: where a single consumer is active, its successor then
starts after all that this one held has gone back in order.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pika.spec

from acemq_amqp.core.ports import Deadline, SubscriptionEvents, SubscriptionRequest
from acemq_amqp.errors import BrokerError, ConnectionLost, ConsumerEnded
from acemq_amqp.fieldtable import encode_table
from acemq_amqp.transports.pika.channels import LiveChannel
from acemq_amqp.transports.pika.refusals import refusal
from acemq_amqp.transports.pika.reply import Reply
from acemq_amqp.transports.pika.session import Session, guarded
from acemq_amqp.transports.pika.settling import Settlements
from acemq_amqp.transports.wire.events import ChannelClosed, ConsumerCancelled, Delivered, WireEvent


class PikaSubscription:
    """A consumer from subscribe to close, as ports.Subscription promises."""

    def __init__(
        self, session: Session, request: SubscriptionRequest, events: SubscriptionEvents
    ) -> None:
        self._session = session
        self._request = request
        self._events = events
        self._asked = f"consuming from queue '{request.queue}'"
        self._channel: LiveChannel
        self._settlements: Settlements
        self._waiting: Reply[None] | None = None
        self._closing = False
        self._ended = False
        self._handed_out = False

    # ------------------------------------------------------------ any thread

    @property
    def live(self) -> bool:
        return self._settlements.live

    def ack(self, tag: int) -> bool:
        return self._settlements.ack(tag)

    def requeue(self, tag: int) -> bool:
        return self._settlements.requeue(tag)

    async def reopen(self, prefetch: int, deadline: Deadline) -> None:
        self._ask(lambda: self._cancel(lambda: self._consume(prefetch)), deadline, self._asked)

    async def cancel(self, deadline: Deadline) -> None:
        self._ask(
            lambda: self._cancel(self._done),
            deadline,
            f"cancelling the consumer of queue '{self._request.queue}'",
        )

    async def close(self, deadline: Deadline) -> None:
        if not self._session.lost:
            with suppress(ConnectionLost):
                self._session.io.ask(
                    self._close, deadline, f"closing the consumer of queue '{self._request.queue}'"
                )

    def _ask(self, begin: Callable[[], None], deadline: Deadline, asked: str) -> None:
        def begun(reply: Reply[None]) -> None:
            if not self.live or self._closing:
                raise self._gone()
            self._waiting = reply
            begin()

        self._session.io.ask(begun, deadline, asked)

    def _gone(self) -> BrokerError:
        return ConsumerEnded(
            f"acemq: the consumer of queue '{self._request.queue}' has ended with its channel; "
            "subscribe again"
        )

    # ------------------------------------------------------------ the I/O thread

    def open(self, reply: Reply[None]) -> None:
        """Opens the channel and consumes; answers when the broker has agreed.

        :raises ConfigurationError: an argument that cannot be encoded; nothing was sent
        """
        encode_table(
            self._request.arguments, f"argument of the consumer of queue '{self._request.queue}'"
        )
        self._waiting = reply
        channel = LiveChannel(
            self._session,
            self._receive,
            lambda: self._consume(self._request.prefetch),
            self._closed_by_broker,
        )
        self._channel = channel
        self._settlements = Settlements(self._session, channel.number, channel.write)

    def _consume(self, prefetch: int) -> None:
        if not self._abandoned():
            self._channel.call(
                pika.spec.Basic.Qos(0, prefetch, False),
                pika.spec.Basic.QosOk,
                lambda _answer: self._start(),
            )

    def _start(self) -> None:
        if self._abandoned():
            return
        request = self._request
        self._channel.call(
            pika.spec.Basic.Consume(
                queue=request.queue, consumer_tag=request.tag, exclusive=request.exclusive
            ),
            pika.spec.Basic.ConsumeOk,
            lambda _answer: self._started(),
            arguments=request.arguments,
        )

    def _started(self) -> None:
        if not self._abandoned():
            self._done()

    def _cancel(self, cancelled: Callable[[], None]) -> None:
        self._settlements.flush()
        self._channel.call(
            pika.spec.Basic.Cancel(consumer_tag=self._request.tag),
            pika.spec.Basic.CancelOk,
            lambda _answer: cancelled(),
        )

    def _close(self, reply: Reply[None]) -> None:
        self._closing = True
        self._settlements.flush()

        self._settlements.close()  # a settlement after this could not be written
        self._channel.close(lambda: _answer(reply))

    def _abandoned(self) -> bool:
        """Whether the subscriber gave up before it had the subscription; this then does so too."""
        if self._handed_out or self._waiting is None or self._waiting.open:
            return False
        self._closing = True
        self._give_up()
        return True

    def _give_up(self) -> None:
        self._settlements.close()
        self._channel.close(_nothing)

    def _receive(self, event: WireEvent) -> None:
        if isinstance(event, Delivered):
            if self._settlements.live:
                self._events.arrived(self._settlements.arrival(event))
        elif isinstance(event, ConsumerCancelled):
            self._give_up()
            self._end(
                BrokerError(
                    f"acemq: the broker cancelled the consumer of queue '{self._request.queue}': "
                    "the queue was deleted or moved"
                )
            )

    def _closed_by_broker(self, closed: ChannelClosed) -> None:
        self._settlements.close()
        error = refusal(closed, self._asked)
        if not self._fail(error):
            self._end(error)

    def _end(self, error: BrokerError) -> None:
        if not self._ended and not self._closing:
            self._ended = True
            guarded(self._events.ended, error)

    def _done(self) -> None:
        if self._waiting is not None:
            self._handed_out = self._waiting.set(None) or self._handed_out
            self._waiting = None

    def _fail(self, error: BrokerError) -> bool:
        waiting, self._waiting = self._waiting, None
        return waiting is not None and waiting.fail(error)


def _answer(reply: Reply[None]) -> None:
    reply.set(None)


def _nothing() -> None:
    pass
