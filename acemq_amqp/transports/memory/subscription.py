"""One consumer of a link, on a channel of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acemq_amqp.core.ports import Deadline, SubscriptionEvents, SubscriptionRequest
from acemq_amqp.errors import BrokerError
from acemq_amqp.transports.memory.channels import Channel, close_channels
from acemq_amqp.transports.memory.consumers import Consumer
from acemq_amqp.transports.memory.offsets import check_consumer, stream_filter, stream_start
from acemq_amqp.transports.memory.refusals import refused
from acemq_amqp.transports.memory.streams import Stream

if TYPE_CHECKING:
    from acemq_amqp.transports.memory.broker import MemoryBroker
    from acemq_amqp.transports.memory.link import MemoryLink


class MemorySettling:
    """Settles the deliveries of one channel, each in a turn of its own."""

    def __init__(self, broker: MemoryBroker, link: MemoryLink) -> None:
        self._broker = broker
        self._link = link
        self._turn = broker.turn
        self.channel = Channel(self)

    @property
    def live(self) -> bool:
        return self.channel.live

    @property
    def unsettled(self) -> int:
        """Deliveries that came and are not settled yet."""
        return len(self.channel.held)

    def ack(self, tag: int) -> bool:
        with self._turn:
            return self.channel.ack(tag)

    def requeue(self, tag: int) -> bool:
        """On a stream, which takes nothing back, the connection is lost, as on RabbitMQ."""
        try:
            with self._turn:
                return self.channel.requeue(tag)
        except BrokerError as refusal:
            self._broker.lose(self._link, str(refusal), refusal.code)
            return False

    def reject(self, tag: int) -> bool:
        """Refuses a delivery for good: its queue dead-letters or drops it."""
        try:
            with self._turn:
                return self.channel.reject(tag)
        except BrokerError as refusal:
            self._broker.lose(self._link, str(refusal), refusal.code)
            return False


class MemorySubscription(MemorySettling):
    """A consumer, as soon as :meth:`begin` was called."""

    def __init__(
        self,
        broker: MemoryBroker,
        link: MemoryLink,
        request: SubscriptionRequest,
        events: SubscriptionEvents,
    ) -> None:
        super().__init__(broker, link)
        self._request = request
        self._events = events

    def begin(self) -> None:
        """Consumes. In a turn, once.

        :raises BrokerError: what RabbitMQ refuses too
        :raises ConfigurationError: what only this broker does not do
        """
        request, host = self._request, self._broker.host
        store = host.queue(request.queue, self._link)
        check_consumer(store.options.kind, request.queue, request.arguments)
        consumer = Consumer(
            self.channel,
            request.tag,
            request.prefetch,
            exclusive=request.exclusive,
            priority=request.arguments.get("x-priority", 0),
            arrived=self._events.arrived,
            ended=self._events.ended,
        )
        if isinstance(store, Stream):
            if not request.prefetch:
                raise refused(
                    406,
                    "PRECONDITION_FAILED - consumer prefetch count is not set for "
                    f"'queue '{request.queue}' in vhost '/''",
                )
            now = self._broker.clock.now()
            store.place(consumer, stream_start(request.queue, request.arguments, now))
            consumer.wanted = stream_filter(request.queue, request.arguments)
        store.join(consumer)
        store.refresh()

    async def cancel(self, deadline: Deadline) -> None:
        with self._turn:
            for store, consumer in self.channel.consumers:
                store.leave(consumer)
                store.refresh()
            self.channel.consumers.clear()

    async def close(self, deadline: Deadline) -> None:
        with self._turn:
            close_channels([self.channel])
            self._link.channels.pop(self.channel, None)
