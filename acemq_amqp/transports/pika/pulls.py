"""Pulling single messages: one channel a queue, one `basic.get` at a time on it.

A queue that is missing closes its own channel and makes stale only what was pulled
from it. What comes after its caller has gone is given back.
"""

from __future__ import annotations

from collections import deque

from acemq_amqp.core.ports import Arrival
from acemq_amqp.transports.pika.channels import LiveChannel
from acemq_amqp.transports.pika.reply import Reply
from acemq_amqp.transports.pika.session import Session
from acemq_amqp.transports.pika.settling import Settlements
from acemq_amqp.transports.refusals import refusal
from acemq_amqp.transports.wire.events import ChannelClosed, Got, GotNothing, WireEvent
from acemq_amqp.transports.wire.frames import get_frame

#: channels kept for pulling; beyond it, those without unsettled messages are closed
KEPT_CHANNELS = 16


class PullChannel:
    """Pulls from one queue. Used on the I/O thread only."""

    def __init__(self, session: Session, queue: str, pulls: Pulls) -> None:
        self._queue = queue
        self._pulls = pulls
        self._waiting: deque[Reply[Arrival | None]] = deque()
        self._now: Reply[Arrival | None] | None = None
        self._ready = False
        self._channel = LiveChannel(session, self._receive, self._opened, self._refused)
        self.settlements = Settlements(session, self._channel.number, self._channel.write)

    @property
    def idle(self) -> bool:
        return self._now is None and not self._waiting and not self.settlements.unsettled

    def pull(self, reply: Reply[Arrival | None]) -> None:
        self._waiting.append(reply)
        self._next()

    def close(self) -> None:
        self.settlements.close()
        self._channel.close(_nothing)

    def _opened(self) -> None:
        self._ready = True
        self._next()

    def _next(self) -> None:
        while self._ready and self._now is None and self._waiting:
            reply = self._waiting.popleft()
            if reply.open:
                self._now = reply
                self._channel.write(get_frame(self._channel.number, self._queue))

    def _receive(self, event: WireEvent) -> None:
        if not isinstance(event, Got | GotNothing):
            return
        reply, self._now = self._now, None
        arrival = self.settlements.arrival(event) if isinstance(event, Got) else None
        if (reply is None or not reply.set(arrival)) and arrival is not None:
            self.settlements.requeue(arrival.tag)
        self._next()

    def _refused(self, closed: ChannelClosed) -> None:
        self.settlements.close()
        self._pulls.forget(self._queue)
        for reply in (self._now, *self._waiting):
            if reply is not None:
                reply.fail(refusal(closed, f"pulling from queue '{self._queue}'"))


class Pulls:
    """The pull channels of a connection. Used on the I/O thread only."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._channels: dict[str, PullChannel] = {}

    def pull(self, queue: str, reply: Reply[Arrival | None]) -> None:
        """Answers with one message, or None where the queue has none."""
        channel = self._channels.get(queue)
        if channel is None:
            self._make_room()
            channel = self._channels[queue] = PullChannel(self._session, queue, self)
        channel.pull(reply)

    def forget(self, queue: str) -> None:
        self._channels.pop(queue, None)

    def _make_room(self) -> None:
        if len(self._channels) < KEPT_CHANNELS:
            return
        for queue, channel in tuple(self._channels.items()):
            if channel.idle:
                del self._channels[queue]
                channel.close()


def _nothing() -> None:
    pass
