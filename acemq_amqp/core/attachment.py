"""How a consumer hangs on the broker: by a careful subscription first, then by an open one.

A subscription begins with prefetch 1, so that whatever ended a process before is met alone. At
the first delivery that nobody had before, another takes its place with the whole prefetch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from acemq_amqp.codec import Codec
from acemq_amqp.core.ports import (
    Arrival,
    Deadline,
    Link,
    Subscription,
    SubscriptionEvents,
    SubscriptionRequest,
    Work,
)
from acemq_amqp.core.settlement import Hop
from acemq_amqp.errors import BrokerError, ConnectionLost, DeclarationMismatch, NotFound
from acemq_amqp.retry import RetryPolicy
from acemq_amqp.topology import BindingDeclaration, Topology, failure_topology, rung_topology

log = logging.getLogger("acemq_amqp")

#: Opening to the whole prefetch takes three round trips; seconds.
_OPENING = 10.0
#: A channel gets so long to close after the deadline of a stop; seconds.
_GRACE = 0.5
_OFFSET = "x-stream-offset"


@dataclass(frozen=True, slots=True)
class ConsumerSpec:
    """What to consume and how; checked where it is built, see :mod:`acemq_amqp.core.checks`."""

    queue: str
    codec: Codec
    policy: RetryPolicy
    prefetch: int
    concurrency: int = 1
    tag: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    declare: bool = True
    single_active: bool = False
    max_deliveries: int = 10
    spill: bool = True
    vanishes: bool = False

    @property
    def may_isolate(self) -> bool:
        """Whether it may stop its deliveries for a while.

        Not from a queue that is deleted, with all that waits in it, without a consumer.
        """
        return self.may_probe and not self.vanishes

    @property
    def may_probe(self) -> bool:
        """Whether it may start with a prefetch of 1 and consume again with its own.

        Not where a second consume would lose a place in line (single active) or messages (streams).
        """
        return self.prefetch > 1 and not self.single_active and _OFFSET not in self.arguments


class Attachment:
    """The subscription of one consumer, and the one before it.

    :param ended: told when the broker ended the subscription that stands
    :param retired: told of a subscription that has been replaced, to be closed once it is settled
    :param doubted: gives the rungs of a queue, which are to be declared again with it
    :ivar probing: whether it has a prefetch of 1 for now
    """

    def __init__(
        self,
        spec: ConsumerSpec,
        work: Work,
        events: SubscriptionEvents,
        retired: Callable[[Subscription], None],
        doubted: Callable[[str], set[float]],
    ) -> None:
        self._spec = spec
        self._clock = work.clock
        self._events = events
        self._tell_retired = retired
        self._doubted = doubted
        #: rungs that this queue's waits spilled to before it was attached again
        self._rungs: set[float] = set()
        self._attached = work.event()
        self._link: Link | None = None
        #: those before, while their last deliveries are not settled
        self._before: list[Subscription] = []
        self._lock = work.lock()
        self._over = False
        self.subscription: Subscription | None = None
        self.probing = False

    @property
    def live(self) -> bool:
        """Whether the broker has confirmed it and delivers."""
        return self.subscription is not None and self.subscription.live

    async def attach(self, link: Link, deadline: Deadline, *, again: bool) -> None:
        """Subscribes on a link, declaring first where failed messages go.

        :param again: it was attached before. It then consumes first, and what cannot be declared
            now, say on a node that is down, is no reason not to: a hop that needs it waits
        :raises NotFound: the queue is not there
        """
        queue = self._spec.queue
        if await link.look_up_queue(queue, deadline) is None:
            raise NotFound(
                f"acemq: there is no queue {queue!r} to consume from; declare it first, "
                "for example with connection.declare(Topology().queue(...))",
                code=404,
            )
        if not again:
            await self._declare(link, deadline)
        self.probing = self._spec.may_probe
        self._attached.clear()
        if again:
            await self._bind_back(link, deadline)
        await self._subscribe(link, 1 if self.probing else self._spec.prefetch, deadline)
        self._attached.set()
        if again:
            await self._declare_if_possible(link, deadline)

    async def _bind_back(self, link: Link, deadline: Deadline) -> None:
        """A queue made anew has to get back what waits in its rungs, at once: else that is lost."""
        self._rungs |= self._doubted(self._spec.queue)
        await self._declare_if_possible(link, deadline, bindings_only=True)

    async def _declare_if_possible(
        self, link: Link, deadline: Deadline, *, bindings_only: bool = False
    ) -> None:
        try:
            await self._declare(link, deadline, bindings_only=bindings_only)
        except (ConnectionLost, DeclarationMismatch):
            raise
        except BrokerError as failure:
            log.warning("acemq: %s is consumed from all the same: %s", self._spec.queue, failure)

    async def _subscribe(self, link: Link, prefetch: int, deadline: Deadline) -> None:
        self._link = link
        spec = self._spec
        request = SubscriptionRequest(spec.queue, spec.tag, prefetch, spec.arguments)
        subscription = await link.subscribe(request, self._events, deadline)
        with self._lock:
            over, before = self._over, self.subscription
            if not over:
                self.subscription = subscription
        if over:  # stopped meanwhile: it is to get nothing, and nobody else would close it
            await subscription.close(deadline)
        else:
            self._retire(before)

    def _retire(self, before: Subscription | None) -> None:
        if before is not None and before.live:
            self._before = [*(each for each in self._before if each.live), before]
            self._tell_retired(before)

    async def _declare(
        self, link: Link, deadline: Deadline, *, bindings_only: bool = False
    ) -> None:
        if not self._spec.declare:
            return
        around = failure_topology(self._spec.queue, self._spec.policy)
        for rung in sorted(self._rungs):
            around += rung_topology(self._spec.queue, rung)
        for step in _back(around, self._spec.queue) if bindings_only else around.plan():
            await link.declare(step, deadline)

    async def declare_target(self, link: Link, hop: Hop, deadline: Deadline) -> None:
        """Declares where a hop goes: a rung, or again what was found missing."""
        if not self._spec.declare:
            return
        if hop.rung is None:
            await self._declare(link, deadline)
            return
        for step in rung_topology(self._spec.queue, hop.rung).plan():
            await link.declare(step, deadline)

    # ------------------------------------------------------------ opening, and stopping

    async def open_up(self, arrival: Arrival) -> None:
        """Consumes again with its whole prefetch, on a channel of its own.

        On the same channel under the same tag RabbitMQ 3.10 mixes up the deliveries of a quorum
        queue and closes the connection (541). A stream is left alone: it would skip messages.
        The new subscription stands before the old one goes: an auto-delete queue would be deleted
        in between, with all that waits in it. Where it cannot stand, the careful one stays, and
        the next delivery tries again.
        """
        self.probing = False
        limit = self._clock.monotonic() + _OPENING
        await self._attached.wait(limit)  # a delivery may come before the broker's consent does
        probe, link = self.subscription, self._link
        if probe is None or link is None or _OFFSET in arrival.properties.headers.values():
            return
        try:
            await self._subscribe(link, self._spec.prefetch, limit)
        except ConnectionLost:
            return  # the keeper attaches it again
        except BrokerError as failure:
            self.probing = self.probing or self.subscription is probe
            log.warning("acemq: %s stays at prefetch 1 for now: %s", self._spec.queue, failure)
            return
        await self.stop_deliveries(probe)

    async def stop_deliveries(self, subscription: Subscription | None) -> None:
        """Asks for no more deliveries; those that came can still be settled.

        What was settled before is with the broker afterwards. Asking again is asking for that.
        """
        if subscription is not None:
            with suppress(BrokerError):
                await subscription.cancel(self._clock.monotonic() + _OPENING)

    def let_go(self, subscription: Subscription | None) -> bool:
        """Retires a subscription without another in its place; False where there is another."""
        if subscription is not self.subscription:
            return False
        self.subscription = None
        self._retire(subscription)
        return True

    async def cancel(self, limit: float) -> None:
        """Asks for no more deliveries, for good.

        A single active one is not cancelled: its successor would start before our last acks.
        """
        with self._lock:
            self._over = True  # one that is being made is closed as soon as it stands
            standing = self.subscription
        if standing is not None and not self._spec.single_active:
            with suppress(BrokerError):
                await standing.cancel(limit)

    async def end(self, limit: float) -> None:
        """With the channels go the deliveries that nobody settled: back to the queue."""
        limit = max(limit, self._clock.monotonic() + _GRACE)
        for each in (*self._before, self.subscription):
            if each is not None and each.live:
                with suppress(BrokerError):
                    await each.close(limit)


def _back(around: Topology, queue: str) -> list[BindingDeclaration]:
    """What brings a queue's waits back into it."""
    return [step for step in around.bindings if step.destination == queue]
