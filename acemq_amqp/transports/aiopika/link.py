"""One connection to one broker, from handshake to close.

The link shares one stream among a publishing lane, a side channel, pulls and
subscriptions, and tells each when the stream ends. However it ends, what was written
and not confirmed is unknown, what was not written is unsent, every delivery is stale,
every waiting call fails, and no task is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import aio_pika
from aiormq.abc import AbstractConnection

from acemq_amqp.address import Address
from acemq_amqp.core.ports import (
    Arrival,
    BrokerInfo,
    Deadline,
    LinkEvents,
    Outcome,
    Outgoing,
    QueueState,
    SubscriptionEvents,
    SubscriptionRequest,
)
from acemq_amqp.errors import BrokerError
from acemq_amqp.topology import Declaration
from acemq_amqp.transports.aiopika.calls import Calls, seconds_left
from acemq_amqp.transports.aiopika.channels import Channels, ConnectionEvent
from acemq_amqp.transports.aiopika.lane import PublishingLane
from acemq_amqp.transports.aiopika.liveness import Liveness
from acemq_amqp.transports.aiopika.pending import PendingPublish
from acemq_amqp.transports.aiopika.pulls import Pulls
from acemq_amqp.transports.aiopika.side import SideChannel
from acemq_amqp.transports.aiopika.subscription import ChannelSubscription
from acemq_amqp.transports.aiopika.tap_stream import TapStream
from acemq_amqp.transports.refusals import lost
from acemq_amqp.transports.wire.events import Blocked, Unblocked, WireEvent

#: what RabbitMQ offers where a broker names no limit
_FRAME_MAX = 131_072
#: seconds in which broker and driver may take leave of each other
_LAST_WORDS = 2.0


class AioPikaLink:
    """A connection that is up; :class:`acemq_amqp.core.ports.Link` says what its calls promise."""

    def __init__(
        self,
        address: Address,
        connection: aio_pika.Connection,
        driver: AbstractConnection,
        stream: TapStream,
        calls: Calls,
        events: LinkEvents,
    ) -> None:
        loop = asyncio.get_running_loop()
        tune = driver.connection_tune
        stream.tap.frame_max = tune.frame_max or _FRAME_MAX
        self._loop = loop
        self._address = address
        self._connection = connection
        self._stream = stream
        self._calls = calls
        self._events = events
        self._broker = _broker(driver, address)
        self._blocked: str | None = None
        self._closing = False
        self._channels = Channels(driver, calls, tune.channel_max, self._of_connection)
        self._lane = PublishingLane(
            loop, stream, self._channels, stream.tap.frame_max, stream.abort
        )
        self._side = SideChannel(self._channels)
        self._pulls = Pulls(loop, stream, self._channels, self._side.look_up_queue)
        self._liveness = Liveness(loop, stream, address.heartbeat)
        stream.listen(self)

    @property
    def broker(self) -> BrokerInfo:
        return self._broker

    @property
    def blocked_reason(self) -> str | None:
        """The broker's words while it has paused publishing, else None."""
        return self._blocked

    def submit(
        self, outgoing: Outgoing, on_outcome: Callable[[Outcome], None] | None = None
    ) -> PendingPublish:
        """Hands a message over for writing, in order. Any thread; only enqueues."""
        return self._lane.submit(outgoing, on_outcome)

    async def declare(self, step: Declaration, deadline: Deadline) -> None:
        """Declares an exchange, a queue or a binding."""
        await self._side.declare(step, deadline)

    async def look_up_queue(self, name: str, deadline: Deadline) -> QueueState | None:
        """What a queue holds, or None where there is none."""
        return await self._side.look_up_queue(name, deadline)

    async def look_up_exchange(self, name: str, deadline: Deadline) -> bool:
        """Whether an exchange is there."""
        return await self._side.look_up_exchange(name, deadline)

    async def delete_queue(self, name: str, deadline: Deadline) -> int:
        """Deletes a queue and its messages, whose number it returns."""
        return await self._side.delete_queue(name, deadline)

    async def purge_queue(self, name: str, deadline: Deadline) -> int:
        """Throws away what waits in a queue, and returns how many messages that were."""
        return await self._side.purge_queue(name, deadline)

    async def pull(self, queue: str, deadline: Deadline) -> Arrival | None:
        """Gets one message, unsettled, or None where there is none."""
        return await self._pulls.pull(queue, deadline)

    async def subscribe(
        self, request: SubscriptionRequest, events: SubscriptionEvents, deadline: Deadline
    ) -> ChannelSubscription:
        """Starts a consumer on a channel of its own."""
        asked = f"opening a channel for queue {request.queue!r}"
        channel = await self._channels.open(deadline, asked)
        subscription = ChannelSubscription(self._loop, self._stream, channel, request, events)
        try:
            await subscription.start(deadline)
        except BaseException:
            subscription.retire()
            channel.discard()
            raise
        return subscription

    async def update_secret(self, secret: str, deadline: Deadline) -> None:
        """Gives the broker a new secret for this login, as tokens that expire need it."""
        asked = "a new secret"
        updating = self._connection.update_secret(secret, reason="renewed")
        try:
            await self._calls.ask(updating, deadline, asked)
        except BrokerError:
            raise
        except Exception as error:
            raise self._calls.loss(asked) from error

    async def close(self, deadline: Deadline) -> None:
        """Closes in order, and drops the socket at the deadline.

        Publishes that have no outcome by then get theirs. Returns in an alarm too.
        """
        self._closing = True
        self._lane.flush()
        self._channels.retire()
        if self._stream.open:
            self._stream.release()
        closing = self._calls.spawn(self._connection.close())
        try:
            await asyncio.wait((closing,), timeout=seconds_left(deadline))
        finally:
            self._stream.abort()
        await self._calls.finished(_LAST_WORDS)

    def abort(self) -> None:
        """Drops the socket at once. Pending publishes get their outcome; no loss is told."""
        self._closing = True
        self._stream.abort()

    # ------------------------------------------------------------ what the stream tells

    def received(self, events: Sequence[WireEvent]) -> None:
        self._channels.received(events)

    def writable(self) -> None:
        self._channels.flush()

    def ended(self, cause: BaseException | None) -> None:
        why = lost(self._address, self._stream.farewell, cause)
        self._liveness.stop()
        self._calls.end(None if self._closing else why)
        self._channels.end()
        self._lane.lost("the connection was closed" if self._closing else str(why))
        self._calls.spawn(self._bury())
        if not self._closing:
            self._events.lost(why)

    async def _bury(self) -> None:
        """Closes the driver, if it has not closed itself; drops a socket that will not end."""
        closing = self._calls.spawn(self._connection.close())
        await asyncio.wait((closing, self._stream.over), timeout=_LAST_WORDS)
        self._stream.abort()
        self._stream.release()
        await closing
        self._calls.abandon()

    def _of_connection(self, event: ConnectionEvent) -> None:
        if isinstance(event, Blocked):
            self._blocked = event.reason
            self._lane.pause(event.reason)
            self._events.blocked(event.reason)
        elif isinstance(event, Unblocked):
            self._blocked = None
            self._lane.resume()
            self._events.unblocked()


def _broker(driver: AbstractConnection, address: Address) -> BrokerInfo:
    said = driver.server_properties
    numbers = str(said.get("version", "")).partition("-")[0].split(".")
    version = tuple(int(number) for number in numbers if number.isdigit())
    return BrokerInfo(str(said.get("product", "")), version, address.username)
