"""The publishing lane: what is handed over in one turn of the loop is written as one.

A ledger keeps every publish until it has an outcome; the lane gives it a channel in
confirm mode, opened for the first publish and again after the broker closed it.
Meanwhile, while the socket is slow, and while the broker has paused publishing,
entries wait in the ledger, where they can be withdrawn.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from acemq_amqp.core.ports import Outcome, Outgoing
from acemq_amqp.errors import BrokerError
from acemq_amqp.transports.aiopika.channels import Channels, LiveChannel
from acemq_amqp.transports.aiopika.deadlines import Deadlines
from acemq_amqp.transports.aiopika.pending import PendingPublish
from acemq_amqp.transports.aiopika.tap_stream import TapStream
from acemq_amqp.transports.wire.events import Acked, ChannelClosed, Nacked, Returned
from acemq_amqp.transports.wire.publishing import RENEWAL, PublishLedger

#: bytes collected for one write
_ONE_WRITE = 256 * 1024


class PublishingLane:
    """All publishes of one connection, in order.

    :param failed: told when no channel can be had, on a connection that should give one
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        stream: TapStream,
        channels: Channels,
        frame_max: int,
        failed: Callable[[BrokerError], None],
    ) -> None:
        self.ledger = PublishLedger(0, frame_max, threading.Lock())
        self._loop = loop
        self._thread = threading.get_ident()
        self._stream = stream
        self._channels = channels
        self._failed = failed
        self._deadlines = Deadlines(loop)
        self._channel: LiveChannel | None = None
        self._opening = False
        self._leaving = False
        self._left_at = 0.0
        self._scheduled = False

    def submit(
        self, outgoing: Outgoing, on_outcome: Callable[[Outcome], None] | None
    ) -> PendingPublish:
        """Queues a publish, to be written with the others of this turn. Any thread."""
        pending = PendingPublish(self._loop, self.ledger, self._deadlines, on_outcome)
        pending.entry = self.ledger.submit(outgoing, pending.settle)
        if not self._scheduled:
            self._scheduled = True
            if threading.get_ident() == self._thread:
                self._loop.call_soon(self._turn)
            else:
                self._loop.call_soon_threadsafe(self._turn)
        return pending

    def flush(self) -> None:
        """Writes what may be written; opens the channel where that is what it takes."""
        ledger, stream = self.ledger, self._stream
        if self._leaving and ledger.at_rest:
            self._leave()
        if self._channel is None:
            self._want_channel()
            return
        while stream.open and not stream.paused and (frames := ledger.collect(_ONE_WRITE)):
            stream.write(frames)

    def pause(self, reason: str) -> None:
        """Writes nothing more until :meth:`resume`."""
        self.ledger.pause(reason)

    def resume(self) -> None:
        self.ledger.resume()
        self.flush()

    def lost(self, reason: str) -> None:
        """The connection is over: everything gets its outcome."""
        self.ledger.lost(reason)
        self._deadlines.close()

    def receive(self, event: object) -> None:
        """Takes confirms, returns and the end of the channel."""
        ledger = self.ledger
        if isinstance(event, Acked):
            ledger.acked(event.tag, event.multiple)
        elif isinstance(event, Nacked):
            ledger.nacked(event.tag, event.multiple)
            self._doubt()
        elif isinstance(event, Returned):
            ledger.returned(
                event.exchange,
                event.routing_key,
                event.properties.message_id or "",
                event.code,
                event.text,
            )
        elif isinstance(event, ChannelClosed):
            self._channel, self._leaving = None, False
            ledger.channel_closed(event.code, event.text)
            self.flush()  # which opens the next one for what is still queued
            return
        if self._leaving or ledger.wanting:  # a twin of what was settled may go now
            self.flush()

    def retire(self) -> None:
        """The channel is gone. What it leaves is settled by :meth:`lost`."""
        self._channel = None

    # ------------------------------------------------------------ inside

    def _doubt(self) -> None:
        """After a nack the channel is left for a fresh one, at most once a second.

        RabbitMQ 3.10 nacks everything for a quorum queue on a channel that met it without a leader.
        """
        if self._channel is not None and self._loop.time() - self._left_at > RENEWAL:
            self._leaving = True
            self.ledger.rest()

    def _leave(self) -> None:
        channel, self._channel, self._leaving = self._channel, None, False
        self._left_at = self._loop.time()
        if channel is not None:
            self._channels.receivers.pop(channel.number, None)
            channel.discard()
            self.ledger.left()

    def _turn(self) -> None:
        self._scheduled = False
        self.flush()

    def _want_channel(self) -> None:
        if not self._opening and self._stream.open and self.ledger.unsettled:
            self._opening = True
            self._channels.calls.spawn(self._open())

    async def _open(self) -> None:
        try:
            channel = await self._channels.open(None, "opening a channel", confirms=True)
        except BrokerError as failure:
            self._failed(failure)
            return
        finally:
            self._opening = False
        channel.own(self)
        self.ledger.reopened(channel.number)
        self._channel = channel
        self.flush()
