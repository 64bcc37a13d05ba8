"""A consumer: deliveries in, settlements out, and a stop that leaves nothing behind.

The transport only puts arrivals into the inbox; workers take them one at a time,
read, handle and answer. An accept is acknowledged at once; anything else goes to
the settler. The consumer outlives its subscription: the keeper attaches it again
after a lost connection or a cancel by the broker.
"""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Protocol

from acemq_amqp.ack import Ack, AckKind
from acemq_amqp.codec import Codec
from acemq_amqp.core.handling import Handling, same_message
from acemq_amqp.core.observer import Observing
from acemq_amqp.core.poison import poison_hop, suspected
from acemq_amqp.core.ports import (
    Arrival,
    Call,
    Deadline,
    Link,
    Subscription,
    SubscriptionEvents,
    SubscriptionRequest,
    Work,
)
from acemq_amqp.core.settlement import Hop, settlement_of
from acemq_amqp.core.settling import Settler
from acemq_amqp.durations import Duration, seconds
from acemq_amqp.errors import BrokerError, NotFound
from acemq_amqp.message import Message
from acemq_amqp.retry import RetryPolicy
from acemq_amqp.topology import failure_topology, rung_topology

#: A redelivery waits so long before it looks again whether the first has ended; seconds.
_LOOK_AGAIN = 0.5
#: Opening to the whole prefetch takes three round trips; seconds.
_OPENING = 10.0
log = logging.getLogger("acemq_amqp")

#: A stop past its deadline still gets so long to close its channels; seconds.
_GRACE = 0.5
_OFFSET = "x-stream-offset"
#: The consumer whose handler is running here: closing it from inside only starts the stop.
_HANDLING: contextvars.ContextVar[Consumer | None] = contextvars.ContextVar(
    "acemq_handling", default=None
)


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

    @property
    def may_probe(self) -> bool:
        """Whether it may start with a prefetch of 1 and consume again with its own.

        Not where a second consume would lose a place in line (single active) or messages (streams).
        """
        return self.prefetch > 1 and not self.single_active and _OFFSET not in self.arguments


class ConsumerWatch(Protocol):
    """Who is told of a consumer's ends. Both calls only enqueue."""

    def ended(self, consumer: Consumer, error: BrokerError) -> None:
        """The broker ended its subscription."""

    def closed(self, consumer: Consumer) -> None:
        """It has stopped for good."""

    def handled_elsewhere(self, consumer: Consumer, arrival: Arrival) -> bool:
        """Whether an earlier delivery of the same message still runs in this connection."""

    def retired(self, subscription: Subscription) -> None:
        """Another has taken its place; to be closed once its deliveries are settled."""


class Consumer:
    """Messages of one queue, handed to one handler. Made by ``Connection.consume``.

    Every delivery is settled exactly once, however its handler ends.
    """

    def __init__(
        self,
        spec: ConsumerSpec,
        call: Call,
        work: Work,
        settler: Settler,
        observing: Observing,
        watch: ConsumerWatch,
    ) -> None:
        self._spec = spec
        self._handling = Handling(spec.queue, spec.codec, call, observing, work.waiting(spec.codec))
        self._work = work
        self._settler = settler
        self._observing = observing
        self._inbox = work.queue()
        self._idle = work.event()
        self._gone = work.event()
        self._workers = [
            work.spawn(self._serve(), f"acemq-{spec.queue}-{number}")
            for number in range(1, spec.concurrency + 1)
        ]
        self._subscription: Subscription | None = None
        #: the one before, while its last delivery is not settled
        self._retired: Subscription | None = None
        self._link: Link | None = None
        self._attached = work.event()
        self._probing = False
        self._closing = False
        self._hurried = False
        #: whether its stop ended in time
        self.in_time = True
        self._busy: set[Arrival] = set()
        self._held: set[Arrival] = set()
        self._moving: set[Arrival] = set()
        self._watch = watch
        self.error: BrokerError | None = None

    def __repr__(self) -> str:
        state = "closed" if self.closed else "running" if self.running else "waiting"
        return f"Consumer({self.queue!r}, {state}, in_flight={self.in_flight})"

    # ------------------------------------------------------------ what users see

    @property
    def queue(self) -> str:
        """What it reads."""
        return self._spec.queue

    @property
    def closed(self) -> bool:
        """Whether it has stopped for good: closed here, or ended by the broker (see ``error``)."""
        return self._gone.is_set()

    @property
    def running(self) -> bool:
        """Whether the broker has confirmed it and delivers to it now."""
        subscription = self._subscription
        return not self._closing and subscription is not None and subscription.live

    @property
    def in_flight(self) -> int:
        """Handlers that are running."""
        return len(self._busy)

    @property
    def unsettled(self) -> int:
        """Deliveries answered and not settled yet: held for a wait, or on their way elsewhere."""
        return len(self._held) + len(self._moving)

    @property
    def stalled(self) -> bool:
        """Whether every delivery it may have waits to be settled elsewhere."""
        return len(self._moving) >= self._spec.prefetch

    async def close(self, timeout: Duration = 20.0) -> bool:
        """Stops: no handler starts, running ones finish, what was not started is given back.

        :param timeout: seconds for all of it; stragglers are cancelled (async) or abandoned
            (blocking) afterwards, and their messages left to the broker
        :returns: whether everything ended in time. Called from inside its own handler it only
            starts the stop, and returns False
        """
        limit = self._work.clock.monotonic() + seconds(timeout, "timeout")
        if self.handling_here:
            self._work.spawn(self.close_by(limit), f"acemq-{self.queue}-closing")
            return False
        return await self._work.finish(self.close_by(limit))

    @property
    def handling_here(self) -> bool:
        """Whether the caller is inside this consumer's handler."""
        return _HANDLING.get() is self

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # ------------------------------------------------------------ subscribing

    async def attach(self, link: Link, deadline: Deadline) -> None:
        """Subscribes on a link, declaring first where failed messages go.

        :raises NotFound: the queue is not there
        """
        if await link.look_up_queue(self.queue, deadline) is None:
            raise NotFound(
                f"acemq: there is no queue {self.queue!r} to consume from; declare it first, "
                "for example with connection.declare(Topology().queue(...))",
                code=404,
            )
        await self._declare(link, deadline)
        self._probing = self._spec.may_probe
        self._attached.clear()
        await self._subscribe(link, 1 if self._probing else self._spec.prefetch, deadline)
        self._attached.set()

    async def _subscribe(self, link: Link, prefetch: int, deadline: Deadline) -> None:
        before = self._subscription
        self._link = link
        request = SubscriptionRequest(self.queue, self._spec.tag, prefetch, self._spec.arguments)
        events = SubscriptionEvents(arrived=self._inbox.put, ended=self._ended)
        self._subscription = await link.subscribe(request, events, deadline)
        if before is not None and before.live:
            self._retired = before
            self._watch.retired(before)

    async def _declare(self, link: Link, deadline: Deadline) -> None:
        if self._spec.declare:
            for step in failure_topology(self.queue, self._spec.policy).plan():
                await link.declare(step, deadline)

    async def declare_target(self, link: Link, hop: Hop, deadline: Deadline) -> None:
        """Declares where a hop goes: a rung, or again what was found missing."""
        if not self._spec.declare:
            return
        if hop.rung is None:
            await self._declare(link, deadline)
            return
        for step in rung_topology(self.queue, hop.rung).plan():
            await link.declare(step, deadline)

    def _ended(self, error: BrokerError) -> None:
        if not self._closing:
            self._watch.ended(self, error)

    def fail(self, error: BrokerError) -> None:
        """Ends for good, with a reason."""
        self.error = error
        limit = self._work.clock.monotonic()
        self._work.spawn(self.close_by(limit), f"acemq-{self.queue}-ending")

    # ------------------------------------------------------------ handling

    async def _serve(self) -> None:
        _HANDLING.set(self)
        take = self._inbox.get
        while (arrival := await take()) is not None:
            try:
                await self._handle(arrival)
            except Exception:
                # Not settled, so not lost: its channel's end gives it back.
                log.exception("acemq: a delivery of %s could not be settled", self.queue)

    async def _handle(self, arrival: Arrival) -> None:
        self._busy.add(arrival)
        try:
            if not await self._admitted(arrival):
                return
            message, ack = await self._handling.answer(arrival)
            if ack.kind is AckKind.ACCEPT:
                arrival.settling.ack(arrival.tag)
                if self._observing.watched:
                    self._counted("acked")
            else:
                self._decide(arrival, message, ack)
        except Exception:
            raise
        except BaseException:  # cancelled while stopping
            self._give_back(arrival)
            raise
        finally:
            self._busy.discard(arrival)
            if self._closing:
                self._look_idle()

    async def _admitted(self, arrival: Arrival) -> bool:
        """Whether a delivery is to be handled: not stale, not poison, not when stopping."""
        if self._closing:
            self._give_back(arrival)
            return False
        if not arrival.settling.live:
            self._counted("stale")
            return False
        if not self._probing and not arrival.redelivered:
            return True
        if arrival.redelivered and self._watch.handled_elsewhere(self, arrival):
            self._work.later(_LOOK_AGAIN, lambda: self._inbox.put(arrival))
            return False
        return await self._examined(arrival)

    def handles(self, arrival: Arrival) -> bool:
        """Whether an earlier delivery of the same message is still being handled."""
        return any(same_message(arrival, busy) for busy in list(self._busy) if busy is not arrival)

    async def _examined(self, arrival: Arrival) -> bool:
        if suspected(arrival):
            alone = self._probing or self._spec.prefetch == 1
            hop = poison_hop(arrival, self.queue, alone=alone, most=self._spec.max_deliveries)
            if hop is not None:
                self._move(arrival, Message.received(None, arrival), hop)
            return hop is None
        if self._probing:
            self._probing = False
            await self._open_up(arrival)
        return arrival.settling.live

    async def _open_up(self, arrival: Arrival) -> None:
        """Consumes again with its whole prefetch, on a channel of its own.

        On the same channel under the same tag RabbitMQ 3.10 mixes up the deliveries of a quorum
        queue and closes the connection (541). A stream is left alone: it would skip messages.
        """
        limit = self._work.clock.monotonic() + _OPENING
        await self._attached.wait(limit)  # a delivery may come before the broker's consent does
        probe, link = self._subscription, self._link
        if probe is None or link is None or _OFFSET in arrival.properties.headers.values():
            return
        try:
            await probe.cancel(limit)
            await self._subscribe(link, self._spec.prefetch, limit)
        except BrokerError as failure:
            self._subscription = None
            self._watch.retired(probe)
            self._ended(failure)

    # ------------------------------------------------------------ settling

    def _decide(self, arrival: Arrival, message: Message, ack: Ack) -> None:
        now = datetime.fromtimestamp(self._work.clock.now(), UTC)
        settlement = settlement_of(
            ack, message.envelope, queue=self.queue, policy=self._spec.policy, now=now
        )
        self._move(arrival, message, settlement)

    def _move(self, arrival: Arrival, message: Message, settlement: Any) -> None:
        self._moving.add(arrival)
        self._settler.settle(self, arrival, message.envelope, settlement)

    def hold(self, arrival: Arrival, *, spill: bool) -> bool:
        """Keeps a delivery for a wait, unless half the prefetch is held and it may spill."""
        if spill and self._spec.spill and len(self._held) >= self._spec.prefetch // 2:
            return False
        self._held.add(arrival)
        self._moving.discard(arrival)
        return True

    def release(self, arrival: Arrival) -> bool:
        """Ends a wait; False where the delivery was given back meanwhile."""
        try:
            self._held.remove(arrival)  # one step, so that a close and a timer never both get it
        except KeyError:
            return False
        self._moving.add(arrival)
        return True

    def settled(self, arrival: Arrival, result: str) -> None:
        """The settler is done with a delivery."""
        self._moving.discard(arrival)
        self._counted(result)
        if self._closing:
            self._look_idle()

    def _counted(self, outcome: str) -> None:
        if self._observing.watched:
            self._observing.count("acemq.consume.total", {"queue": self.queue, "outcome": outcome})

    # ------------------------------------------------------------ stopping

    def _give_back(self, arrival: Arrival) -> None:
        """Back to the queue. A single active one leaves that to its channel's end: in order."""
        if not self._spec.single_active:
            arrival.settling.requeue(arrival.tag)

    def _look_idle(self) -> None:
        if not self._busy and not self._moving:
            self._idle.set()

    async def close_by(self, limit: float) -> bool:
        """As :meth:`close`, with a deadline."""
        if self._closing:
            return await self._gone.wait(limit) and self.in_time
        self._closing = True
        subscription = self._subscription
        await self._cancel(subscription, limit)
        self._give_back_waiting()
        self._look_idle()
        idle = await self._idle.wait(limit)
        if self._hurried:
            limit = self._work.clock.monotonic()
        self.in_time = await self._end_workers(limit) and idle and not self._hurried
        await self._end_subscriptions(subscription, limit)
        self._gone.set()
        self._watch.closed(self)
        return self.in_time

    async def _end_subscriptions(self, subscription: Subscription | None, limit: float) -> None:
        """With their channels go the deliveries that nobody settled: back to the queue."""
        limit = max(limit, self._work.clock.monotonic() + _GRACE)
        for each in (self._retired, subscription):
            if each is not None and each.live:
                with suppress(BrokerError):
                    await each.close(limit)

    def _give_back_waiting(self) -> None:
        for arrival in self._inbox.drain():
            self._give_back(arrival)
        for arrival in list(self._held):
            if self.release(arrival):
                self._moving.discard(arrival)
                self._give_back(arrival)

    async def _cancel(self, subscription: Subscription | None, limit: float) -> None:
        # single active: cancelling first would let the successor start before our acks
        if subscription is not None and not self._spec.single_active:
            with suppress(BrokerError):
                await subscription.cancel(limit)

    async def _end_workers(self, limit: float) -> bool:
        for _ in self._workers:
            self._inbox.put(None)
        ended = [await worker.join(limit) for worker in self._workers]
        for worker, over in zip(self._workers, ended, strict=True):
            if not over:
                worker.cancel()
        return all(ended)

    def hurry(self) -> None:
        """A second signal: what still runs is not waited for."""
        self._hurried = True
        self._idle.set()
