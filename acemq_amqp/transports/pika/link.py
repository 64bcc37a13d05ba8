"""One connection to one broker, used from any thread.

The link composes the parts of a connection and tells them what happens to it. Its
calls are coroutines that never suspend: what they wait for, they wait for at a lock,
with a deadline, before they return.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pika.spec

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
from acemq_amqp.errors import BrokerError, ConnectionLost, NotFound
from acemq_amqp.topology import Declaration
from acemq_amqp.transports.pika.lane import Lane
from acemq_amqp.transports.pika.liveness import Liveness
from acemq_amqp.transports.pika.methods import declaring
from acemq_amqp.transports.pika.pending import PendingPublish
from acemq_amqp.transports.pika.pulls import Pulls
from acemq_amqp.transports.pika.reply import Reply
from acemq_amqp.transports.pika.session import Session, guarded
from acemq_amqp.transports.pika.side import SideChannel
from acemq_amqp.transports.pika.subscription import PikaSubscription
from acemq_amqp.transports.refusals import lost
from acemq_amqp.transports.wire.events import Blocked, ConnectionClosed, Unblocked, WireEvent

#: seconds that a dropped connection may take to end its thread
ABORT_SECONDS = 1.0

_OF_THE_CONNECTION = (Blocked, Unblocked, ConnectionClosed)


class PikaLink:
    """A connection as ports.Link promises it, for threads."""

    def __init__(self, session: Session, events: LinkEvents) -> None:
        self._session = session
        self._events = events
        self._lane = Lane(session)
        self._side = SideChannel(session)
        self._pulls = Pulls(session)
        self._broker = BrokerInfo("", (), session.address.username)
        self._blocked: str | None = None
        self._was_open = False
        self._liveness: Liveness | None = None
        #: an orderly close is wanted, and not yet asked of the broker
        self._close_due = False

    # ------------------------------------------------------------ any thread

    @property
    def broker(self) -> BrokerInfo:
        return self._broker

    @property
    def blocked_reason(self) -> str | None:
        return self._blocked

    def submit(
        self, outgoing: Outgoing, on_outcome: Callable[[Outcome], None] | None = None
    ) -> PendingPublish:
        return self._lane.submit(outgoing, on_outcome)

    async def declare(self, step: Declaration, deadline: Deadline) -> None:
        asked, method, answer = declaring(step)
        self._side.ask(asked, method, answer, deadline, step.arguments)

    async def look_up_queue(self, name: str, deadline: Deadline) -> QueueState | None:
        method = pika.spec.Queue.Declare(queue=name, passive=True)
        try:
            found = self._side.ask(
                f"looking up queue '{name}'", method, pika.spec.Queue.DeclareOk, deadline
            )
        except NotFound:
            return None
        return QueueState(found.message_count, found.consumer_count)

    async def look_up_exchange(self, name: str, deadline: Deadline) -> bool:
        if not name:
            return True  # the default exchange, which may not be asked for
        method = pika.spec.Exchange.Declare(exchange=name, passive=True)
        try:
            self._side.ask(
                f"looking up exchange '{name}'", method, pika.spec.Exchange.DeclareOk, deadline
            )
        except NotFound:
            return False
        return True

    async def delete_queue(self, name: str, deadline: Deadline) -> int:
        method = pika.spec.Queue.Delete(queue=name)
        answer = self._side.ask(
            f"deleting queue '{name}'", method, pika.spec.Queue.DeleteOk, deadline
        )
        return int(answer.message_count)

    async def purge_queue(self, name: str, deadline: Deadline) -> int:
        method = pika.spec.Queue.Purge(queue=name)
        answer = self._side.ask(
            f"purging queue '{name}'", method, pika.spec.Queue.PurgeOk, deadline
        )
        return int(answer.message_count)

    async def pull(self, queue: str, deadline: Deadline) -> Arrival | None:
        def begin(reply: Reply[Arrival | None]) -> None:
            self._pulls.pull(queue, reply)

        return self._session.io.ask(begin, deadline, f"pulling from queue '{queue}'")

    async def subscribe(
        self, request: SubscriptionRequest, events: SubscriptionEvents, deadline: Deadline
    ) -> PikaSubscription:
        subscription = PikaSubscription(self._session, request, events)
        self._session.io.ask(subscription.open, deadline, f"consuming from queue '{request.queue}'")
        return subscription

    async def update_secret(self, secret: str, deadline: Deadline) -> None:
        def begin(reply: Reply[None]) -> None:
            self._session.connection.update_secret(
                secret, "the secret was renewed", lambda _answer: reply.set(None)
            )

        self._session.io.ask(begin, deadline, "renewing the secret")

    async def close(self, deadline: Deadline) -> None:
        io = self._session.io
        io.refuse_own_thread("closing the connection")
        self._session.closing = True
        io.call(self._begin_close)
        if not io.join(deadline):
            self.abort()
            io.join(time.monotonic() + ABORT_SECONDS)

    def abort(self) -> None:
        self._session.closing = True
        self._session.io.call(lambda: self._session.services.drop("dropped by this side"))

    # ------------------------------------------------------------ the I/O thread

    def opened(self) -> None:
        """The handshake is done."""
        session = self._session
        self._was_open = True
        session.frame_max = session.connection.params.frame_max
        session.services.tuned(session.frame_max)
        self._lane.ledger.frame_max = session.frame_max
        self._liveness = Liveness(session, session.connection.params.heartbeat)
        told = session.connection.server_properties or {}
        self._broker = BrokerInfo(
            _text(told.get("product")),
            _version(_text(told.get("version"))),
            session.address.username,
        )

    def receive(self, events: list[WireEvent]) -> None:
        """Hands the events of one chunk to the channels they belong to."""
        routes = self._session.routes
        for event in events:
            if isinstance(event, _OF_THE_CONNECTION):
                self._receive_own(event)
                continue
            route = routes.get(event.channel)
            if route is not None:
                guarded(route, event)

    def turned(self) -> None:
        """The end of a turn of the loop: everything that it produced is written at once."""
        self._session.make_room()
        if self._close_due:
            self._close_when_settled()
        self._session.services.flush()

    def ended(self, cause: BaseException | None) -> None:
        """The connection is over, one way or the other. Called once or more."""
        session = self._session
        if session.lost:
            return
        if self._liveness is not None:
            self._liveness.stop()
        address, farewell = session.address, session.farewell
        if session.closing:
            session.lose(lambda: _closed_by_us(address))
        else:
            session.lose(lambda: lost(address, farewell, cause))
        self._lane.lose()
        if self._was_open and not session.closing:
            guarded(self._events.lost, session.loss())

    def _receive_own(self, event: Blocked | Unblocked | ConnectionClosed) -> None:
        if isinstance(event, Blocked):
            self._blocked = event.reason
            self._lane.ledger.pause(event.reason)
            guarded(self._events.blocked, event.reason)
        elif isinstance(event, Unblocked):
            self._blocked = None
            self._lane.ledger.resume()
            self._lane.flush()
            guarded(self._events.unblocked)
        else:
            self._session.farewell = event

    def _begin_close(self) -> None:
        self._close_due = True
        self._lane.flush()

    def _close_when_settled(self) -> None:
        """Asks for the close once every publish has its outcome, or can get none for an alarm."""
        if self._lane.ledger.unsettled and self._blocked is None:
            return
        self._close_due = False
        for settlements in tuple(self._session.living):
            settlements.flush()
            settlements.close()
        if self._session.connection.is_open:
            self._session.connection.close()


def _closed_by_us(address: Address) -> BrokerError:
    return ConnectionLost(f"acemq: the connection to {address.shown} was closed by this side")


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
