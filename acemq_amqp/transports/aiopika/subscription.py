"""One consumer on a channel of its own.

Deliveries are counted and handed on as the tap reads them, which may be before the
driver has read that the consumer is there. The subscription ends once: by our close,
by the broker's cancel, by its channel, or with the connection (which is told as the
link's loss, not as the consumer's end).
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from pamqp import commands

from acemq_amqp.core.ports import Arrival, Deadline, SubscriptionEvents, SubscriptionRequest
from acemq_amqp.errors import BrokerError
from acemq_amqp.transports.aiopika.channels import LiveChannel
from acemq_amqp.transports.aiopika.requests import BasicConsume
from acemq_amqp.transports.aiopika.settling import SettlingChannel
from acemq_amqp.transports.aiopika.tap_stream import TapStream
from acemq_amqp.transports.refusals import refusal
from acemq_amqp.transports.wire.events import ChannelClosed, ConsumerCancelled, Delivered


class ChannelSubscription(SettlingChannel):
    """A consumer, from the first Basic.Consume to its end."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        stream: TapStream,
        channel: LiveChannel,
        request: SubscriptionRequest,
        events: SubscriptionEvents,
    ) -> None:
        super().__init__(loop, stream, channel, request.prefetch)
        self._request = request
        self._tag = request.tag or f"acemq-{uuid.uuid4().hex}"
        self._events = events
        self._started = False
        channel.own(self)

    async def start(self, deadline: Deadline) -> None:
        """Begins to consume.

        :raises BrokerError: the broker refused; ``ended`` is then not told
        """
        await self._consume(self._request.prefetch, deadline)
        self._started = True

    async def cancel(self, deadline: Deadline) -> None:
        """Asks for no more deliveries; those that came can still be settled."""
        if self._live:
            self.flush()
            await self._stop_deliveries(deadline)

    async def close(self, deadline: Deadline) -> None:
        """Writes the settlements that wait, then closes the channel with its consumer."""
        self._started = False
        self.retire()
        await self._channel.close(deadline)

    def receive(self, event: Any) -> None:
        """Takes what the tap reads for the channel."""
        if type(event) is Delivered:
            self._ledger.delivered(event.tag)
            self._events.arrived(
                Arrival(
                    self,
                    event.tag,
                    event.redelivered,
                    event.exchange,
                    event.routing_key,
                    event.properties,
                    event.body,
                )
            )
        elif isinstance(event, ConsumerCancelled):
            self._end(
                BrokerError(
                    f"acemq: the broker cancelled {self._name}: the queue was deleted or its "
                    "leader moved; it comes back once the queue is there"
                )
            )
            self._channel.discard()
        elif isinstance(event, ChannelClosed):
            self._end(refusal(event, self._name))

    # ------------------------------------------------------------ inside

    @property
    def _name(self) -> str:
        return f"consumer {self._tag!r} of queue {self._request.queue!r}"

    async def _consume(self, prefetch: int, deadline: Deadline) -> None:
        asked = f"starting {self._name}"
        request = self._request
        qos = commands.Basic.Qos(prefetch_count=prefetch)
        consume = BasicConsume(request.queue, self._tag, request.exclusive, request.arguments)
        await self._channel.call(qos, deadline, asked)
        # The driver answers a broker's cancel (as RabbitMQ 4.3 wants) for consumers it knows.
        self._channel.driver.consumers[self._tag] = _never_called
        await self._channel.call(consume, deadline, asked)

    async def _stop_deliveries(self, deadline: Deadline) -> None:
        cancel = commands.Basic.Cancel(consumer_tag=self._tag)
        await self._channel.call(cancel, deadline, f"cancelling {self._name}")

    def _end(self, why: BrokerError) -> None:
        self.retire()
        if self._started:
            self._started = False
            self._events.ended(why)


async def _never_called(_message: object) -> None:
    """Content never reaches the driver."""
