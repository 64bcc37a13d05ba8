"""A connection to the broker in memory: everything is answered within the call.

Both flavours use it as it is. None of its coroutines suspends, save the wait for an
outcome while the broker has paused publishing, which is the flavour's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from acemq_amqp.core.ports import (
    Arrival,
    BrokerInfo,
    Deadline,
    LinkEvents,
    Outcome,
    Outgoing,
    Pending,
    QueueState,
    SubscriptionEvents,
    SubscriptionRequest,
    Work,
)
from acemq_amqp.errors import BrokerError, ConnectionLost
from acemq_amqp.topology import Declaration
from acemq_amqp.transports.memory.broker import MemoryBroker
from acemq_amqp.transports.memory.channels import Channel
from acemq_amqp.transports.memory.refusals import default_exchange
from acemq_amqp.transports.memory.subscription import MemorySettling, MemorySubscription

#: codes with which a broker ends the connection, not the channel alone
_FATAL = frozenset({503, 540, 541})


class MemoryLink:
    """One connection to one in-memory broker."""

    def __init__(
        self, broker: MemoryBroker, work: Work, name: str, login: str, events: LinkEvents
    ) -> None:
        self._broker = broker
        self.work = work
        self.name = name
        self.login = login
        self.events = events
        self.told_blocked = False
        self.channels: dict[Channel, None] = {}
        self._pulling: MemorySettling | None = None

    @property
    def broker(self) -> BrokerInfo:
        return BrokerInfo("acemq in memory", self._broker.version, self.login)

    @property
    def blocked_reason(self) -> str | None:
        return self._broker.blocked_reason

    # ------------------------------------------------------------ publishing

    def submit(
        self, outgoing: Outgoing, on_outcome: Callable[[Outcome], None] | None = None
    ) -> Pending:
        return self._broker.publish(self, outgoing, on_outcome)

    # ------------------------------------------------------------ topology

    async def declare(self, step: Declaration, deadline: Deadline) -> None:
        with self.calling():
            self._broker.host.declare(step, self)

    async def look_up_queue(self, name: str, deadline: Deadline) -> QueueState | None:
        with self.calling():
            if name not in self._broker.host.queues:
                return None
            queue = self._broker.host.queue(name, self)
            return QueueState(queue.depth, len(queue.roster))

    async def look_up_exchange(self, name: str, deadline: Deadline) -> bool:
        with self.calling():
            if not name:
                raise default_exchange()
            return name in self._broker.host.exchanges

    async def delete_queue(self, name: str, deadline: Deadline) -> int:
        with self.calling():
            if name not in self._broker.host.queues:
                return 0
            queue = self._broker.host.queue(name, self)
            depth = queue.depth
            self._broker.host.delete(queue)
            return depth

    async def purge_queue(self, name: str, deadline: Deadline) -> int:
        with self.calling():
            return self._broker.host.queue(name, self).purge()

    # ------------------------------------------------------------ consuming

    async def pull(self, queue: str, deadline: Deadline) -> Arrival | None:
        with self.calling():
            store = self._broker.host.queue(queue, self)
            if self._pulling is None:
                self._pulling = MemorySettling(self._broker, self)
                self.channels[self._pulling.channel] = None
            return store.pull(self._pulling.channel)

    async def subscribe(
        self, request: SubscriptionRequest, events: SubscriptionEvents, deadline: Deadline
    ) -> MemorySubscription:
        subscription = MemorySubscription(self._broker, self, request, events)
        with self.calling():
            subscription.begin()
            self.channels[subscription.channel] = None
        return subscription

    # ------------------------------------------------------------ the connection itself

    async def update_secret(self, secret: str, deadline: Deadline) -> None:
        """Nothing: everybody may log in."""
        with self.calling():
            pass

    async def close(self, deadline: Deadline) -> None:
        self._broker.detach(self)

    def abort(self) -> None:
        self._broker.detach(self)

    @contextmanager
    def calling(self) -> Iterator[None]:
        """A turn, for a call that the broker may refuse.

        :raises ConnectionLost: this link is gone, or was ended for what it asked
        """
        try:
            with self._broker.turn:
                if not self._broker.has(self):
                    raise self._gone()
                yield
        except BrokerError as refusal:
            if refusal.code not in _FATAL:
                raise
            self._broker.lose(self, str(refusal), refusal.code)
            raise ConnectionLost(str(refusal), code=refusal.code) from refusal

    def _gone(self) -> ConnectionLost:
        return ConnectionLost(
            f"acemq: the connection {self.name!r} to memory://{self._broker.name} is closed; "
            "open another"
        )
