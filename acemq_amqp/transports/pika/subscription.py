"""One consumer on a channel of its own.

Its receiver is in place before the consumer is asked for, so a delivery that comes
with the broker's consent, or before it, is not lost. The channel is closed without
cancelling the consumer first: where a single consumer is active, its successor then
starts after all that this one held has gone back in order.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from contextlib import suppress

import pika.spec

from acemq_amqp.core.ports import Deadline, SubscriptionEvents, SubscriptionRequest
from acemq_amqp.errors import BrokerError, BrokerTimeout, ConnectionLost, ConsumerEnded
from acemq_amqp.fieldtable import encode_table
from acemq_amqp.transports.pika.channels import LiveChannel
from acemq_amqp.transports.pika.reply import Reply, remaining
from acemq_amqp.transports.pika.session import Session, guarded
from acemq_amqp.transports.pika.settling import Settlements
from acemq_amqp.transports.refusals import refusal
from acemq_amqp.transports.wire.events import ChannelClosed, ConsumerCancelled, Delivered, WireEvent


class PikaSubscription:
    """A consumer from subscribe to close, as ports.Subscription promises."""

    def __init__(
        self, session: Session, request: SubscriptionRequest, events: SubscriptionEvents
    ) -> None:
        self._session = session
        self._request = request
        #: named here, so that it can be cancelled by its name
        self._tag = request.tag or f"acemq-{uuid.uuid4().hex}"
        self._events = events
        self._asked = f"consuming from queue '{request.queue}'"
        self._channel: LiveChannel
        self._settlements: Settlements
        #: the call that is carried out now, answered or not
        self._waiting: Reply[None] | None = None
        self._one_call = threading.Lock()
        self._closing = False
        self._ended = False
        self._handed_out = False

    # ------------------------------------------------------------ any thread

    @property
    def live(self) -> bool:
        return self._settlements.live

    @property
    def unsettled(self) -> int:
        return self._settlements.unsettled

    def ack(self, tag: int) -> bool:
        return self._settlements.ack(tag)

    def requeue(self, tag: int) -> bool:
        return self._settlements.requeue(tag)

    async def cancel(self, deadline: Deadline) -> None:
        def begin(reply: Reply[None]) -> None:
            self._cancel(reply, lambda: _answer(reply))

        self._ask(begin, deadline, f"cancelling the consumer of queue '{self._request.queue}'")

    async def close(self, deadline: Deadline) -> None:
        if not self._session.lost:
            with suppress(ConnectionLost):
                self._session.io.ask(
                    self._close, deadline, f"closing the consumer of queue '{self._request.queue}'"
                )

    def _ask(self, begin: Callable[[Reply[None]], None], deadline: Deadline, asked: str) -> None:
        """Has one call at a time carried out, as answers on a channel bear no name."""

        def begun(reply: Reply[None]) -> None:
            if not self.live or self._closing:
                raise self._gone()
            self._waiting = reply
            begin(reply)

        self._session.io.refuse_own_thread(asked)
        if not self._one_call.acquire(timeout=remaining(deadline)):
            raise BrokerTimeout(f"acemq: no time was left for {asked}: an earlier call took it all")
        try:
            self._session.io.ask(begun, deadline, asked)
        finally:
            self._one_call.release()

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
        request = self._request
        encode_table(request.arguments, f"argument of the consumer of queue '{request.queue}'")
        self._waiting = reply
        channel = LiveChannel(
            self._session,
            self._receive,
            lambda: self._consume(reply, request.prefetch),
            self._closed_by_broker,
        )
        self._channel = channel
        self._settlements = Settlements(
            self._session, channel.number, channel.write, self._request.prefetch
        )

    def _consume(self, reply: Reply[None], prefetch: int) -> None:
        if self._goes_on(reply):
            self._channel.call(
                pika.spec.Basic.Qos(prefetch_count=prefetch),
                pika.spec.Basic.QosOk,
                lambda _answer: self._start(reply),
            )

    def _start(self, reply: Reply[None]) -> None:
        request = self._request
        if self._goes_on(reply):
            self._channel.call(
                pika.spec.Basic.Consume(
                    queue=request.queue, consumer_tag=self._tag, exclusive=request.exclusive
                ),
                pika.spec.Basic.ConsumeOk,
                lambda _answer: self._started(reply),
                arguments=request.arguments,
            )

    def _started(self, reply: Reply[None]) -> None:
        if self._goes_on(reply):
            self._handed_out = reply.set(None) or self._handed_out
            if not self._handed_out:
                self._abandon()

    def _cancel(self, reply: Reply[None], cancelled: Callable[[], None]) -> None:
        self._settlements.flush()
        self._channel.call(
            pika.spec.Basic.Cancel(consumer_tag=self._tag),
            pika.spec.Basic.CancelOk,
            lambda _answer: cancelled() if self._goes_on(reply) else None,
        )

    def _goes_on(self, reply: Reply[None]) -> bool:
        """Whether a call is still the one to carry out.

        It goes on without its caller, who may call again; but a subscription that nobody
        got is given up.
        """
        if not self._handed_out and not reply.open:
            self._abandon()
        return self._waiting is reply and not self._closing

    def _close(self, reply: Reply[None]) -> None:
        self._closing = True
        self._settlements.flush()
        self._settlements.close()  # a settlement after this could not be written
        self._end(self._gone())
        self._channel.close(lambda: _answer(reply))

    def _abandon(self) -> None:
        self._closing = True
        self._give_up()

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
                    "the queue was deleted, or its leader moved; it comes back once the queue does"
                )
            )

    def _closed_by_broker(self, closed: ChannelClosed) -> None:
        self._settlements.close()
        self._end(refusal(closed, self._asked))

    def _end(self, error: BrokerError) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.fail(error)
        if self._handed_out and not self._ended and not self._closing:
            self._ended = True
            guarded(self._events.ended, error)


def _answer(reply: Reply[None]) -> None:
    reply.set(None)


def _nothing() -> None:
    pass
