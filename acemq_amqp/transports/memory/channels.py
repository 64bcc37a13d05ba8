"""Deliveries that are not settled yet, and where they go when nobody will settle them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from acemq_amqp.core.ports import Arrival, Settling
from acemq_amqp.properties import Properties
from acemq_amqp.transports.memory.consumers import Consumer
from acemq_amqp.transports.memory.messages import Entry


class Source(Protocol):
    """What a delivery came from: a queue or a stream."""

    def settled(self, entry: Entry, consumer: Consumer | None) -> None:
        """It was acknowledged."""

    def give_back(self, entry: Entry, consumer: Consumer | None, *, closing: bool) -> None:
        """It was not, and comes again. :meth:`refresh` follows."""

    def rejected(self, entry: Entry, consumer: Consumer | None) -> None:
        """It is not wanted back. :meth:`refresh` follows."""

    def leave(self, consumer: Consumer) -> None:
        """A consumer goes. :meth:`refresh` follows."""

    def refresh(self) -> None:
        """Serves whoever can be served now."""


class Held(NamedTuple):
    """One delivery that is not settled."""

    source: Source
    entry: Entry
    consumer: Consumer | None


class Channel:
    """The unsettled deliveries of one channel. Used under the broker's lock."""

    __slots__ = ("_last_tag", "consumers", "held", "live", "settling")

    def __init__(self, settling: Settling) -> None:
        self.settling = settling
        self.live = True
        self.held: dict[int, Held] = {}
        self.consumers: list[tuple[Source, Consumer]] = []
        self._last_tag = 0

    def hand_over(
        self, source: Source, entry: Entry, properties: Properties, consumer: Consumer | None
    ) -> Arrival:
        """Notes a delivery, and makes it."""
        tag = self._last_tag = self._last_tag + 1
        self.held[tag] = Held(source, entry, consumer)
        message = entry.message
        return Arrival(
            self.settling,
            tag,
            entry.redelivered,
            message.exchange,
            message.routing_keys[0],
            properties,
            message.body,
        )

    def ack(self, tag: int) -> bool:
        """False where the tag is stale, unknown or settled."""
        held = self.held.pop(tag, None)
        if held is None:
            return False
        held.source.settled(held.entry, held.consumer)
        return True

    def requeue(self, tag: int) -> bool:
        """Otherwise as :meth:`ack`.

        :raises BrokerError: a stream takes nothing back (540); the connection is then lost
        """
        held = self.held.get(tag)
        if held is None:
            return False
        held.source.give_back(held.entry, held.consumer, closing=False)
        del self.held[tag]
        held.source.refresh()
        return True

    def reject(self, tag: int) -> bool:
        """Dead-letters it where its queue does that, or drops it; otherwise as :meth:`requeue`."""
        held = self.held.get(tag)
        if held is None:
            return False
        held.source.rejected(held.entry, held.consumer)
        del self.held[tag]
        held.source.refresh()
        return True


def close_channels(channels: Iterable[Channel]) -> None:
    """Closes channels together: what they held comes again, in order, for those that stay.

    First nobody of them consumes any more, then everything goes back, then the queues serve.
    So no message visits a consumer that is on its way out.
    """
    touched: dict[Source, None] = {}
    closing = [channel for channel in channels if channel.live]
    for channel in closing:
        channel.live = False
        for source, consumer in channel.consumers:
            source.leave(consumer)
            touched[source] = None
        channel.consumers.clear()
    for channel in closing:
        for held in channel.held.values():
            held.source.give_back(held.entry, held.consumer, closing=True)
            touched[held.source] = None
        channel.held.clear()
    for source in touched:
        source.refresh()
