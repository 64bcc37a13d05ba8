"""The publishing lane: one confirm channel, opened at the first message.

Any thread puts messages into the ledger; the I/O thread takes what has gathered, a
turn's worth at a time, and hands the broker's confirms and returns back to it. When
the broker closes the channel under the messages, the ledger tells them apart, and
what was not yet written goes out on the next channel.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pika.spec

from acemq_amqp.core.ports import Outcome, Outgoing
from acemq_amqp.transports.pika.channels import LiveChannel
from acemq_amqp.transports.pika.pending import PendingPublish
from acemq_amqp.transports.pika.session import Session
from acemq_amqp.transports.wire.events import Acked, ChannelClosed, Nacked, Returned, WireEvent
from acemq_amqp.transports.wire.publishing import RENEWAL, PublishLedger


class Lane:
    """Publishes on a channel of its own."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.ledger = PublishLedger(0, session.frame_max, threading.Lock())
        self._channel: LiveChannel | None = None
        self._ready = False
        self._leaving = False
        self._left_at = 0.0
        self._due = False
        self._again = False

    # ------------------------------------------------------------ any thread

    def submit(
        self, outgoing: Outgoing, on_outcome: Callable[[Outcome], None] | None
    ) -> PendingPublish:
        """Hands a message over for writing. Only enqueues."""
        pending = PendingPublish(self, on_outcome)
        pending.entry = self.ledger.submit(outgoing, pending.settled)
        if not self._due:
            self._due = True
            self._session.io.call(self._flush)
        if self._session.closing:
            self.ledger.withdraw(pending.entry, "the connection is being closed by this side")
        return pending

    def withdraw(self, pending: PendingPublish) -> None:
        """Settles a message whose deadline came: unsent for good, or unknown."""
        self.ledger.withdraw(pending.entry, "no confirm from the broker in the time allowed")

    def refuse_own_thread(self) -> None:
        self._session.io.refuse_own_thread("waiting for a confirm")

    def lose(self) -> None:
        """The connection is gone: gives everything that is unsettled its outcome."""
        self.ledger.lost(str(self._session.loss()))

    # ------------------------------------------------------------ the I/O thread

    def flush(self) -> None:
        """Writes what waits, as far as there is room."""
        self._again = False
        if self._leaving and self.ledger.at_rest:
            self._leave()
        if self._ready:
            if self._channel is not None and self._channel.is_open:
                self._write(self._channel)
        elif self._channel is None and self.ledger.unsettled and not self._session.lost:
            self._open()

    def _flush(self) -> None:
        self._due = False
        self.flush()

    def _write(self, channel: LiveChannel) -> None:
        room = self._session.room
        if room > 0:
            frames = self.ledger.collect(room)
            if frames:
                channel.write(frames)
        if self.ledger.wanting:
            self._look_again()

    def _look_again(self) -> None:
        """Has the end of the turn see to what could not be written yet."""
        if not self._again:
            self._again = True
            self._session.crowded.add(self.flush)

    def _open(self) -> None:
        self._channel = LiveChannel(self._session, self._receive, self._opened, self._closed)

    def _opened(self) -> None:
        assert self._channel is not None
        self._channel.call(pika.spec.Confirm.Select(), pika.spec.Confirm.SelectOk, self._confirming)

    def _confirming(self, _answer: Any) -> None:
        assert self._channel is not None
        self.ledger.reopened(self._channel.number)
        self._ready = True
        self.flush()

    def _receive(self, event: WireEvent) -> None:
        if isinstance(event, Acked):
            self.ledger.acked(event.tag, event.multiple)
        elif isinstance(event, Nacked):
            self.ledger.nacked(event.tag, event.multiple)
            self._doubt()
        elif isinstance(event, Returned):
            self.ledger.returned(
                event.exchange,
                event.routing_key,
                event.properties.message_id or "",
                event.code,
                event.text,
            )
        self._look_again()  # an equal message may have waited for this one

    def _doubt(self) -> None:
        """After a nack the channel is left for a fresh one, at most once a second.

        RabbitMQ 3.10 nacks everything for a quorum queue on a channel that met it without a leader.
        """
        if self._ready and time.monotonic() - self._left_at > RENEWAL:
            self._leaving = True
            self.ledger.rest()

    def _leave(self) -> None:
        channel, self._channel = self._channel, None
        self._ready = self._leaving = False
        self._left_at = time.monotonic()
        if channel is not None:
            self._session.routes[channel.number] = _ignored
            channel.close(_nothing)
            self.ledger.left()

    def _closed(self, closed: ChannelClosed) -> None:
        self._channel, self._ready, self._leaving = None, False, False
        self.ledger.channel_closed(closed.code, closed.text)
        self.flush()


def _ignored(_event: WireEvent) -> None:
    """A late confirm on a channel that was left."""


def _nothing() -> None:
    pass
