"""A consumer: deliveries in, settlements out, and a stop that leaves nothing behind.

The transport only puts arrivals into the inbox; workers take them one at a time,
read, handle and answer. An accept is acknowledged at once; anything else goes to
the settler. The consumer outlives its subscription: the keeper attaches it again
after a lost connection or a cancel by the broker.
"""

from __future__ import annotations

import contextvars
import functools
import logging
from contextlib import suppress
from datetime import UTC, datetime

from acemq_amqp.ack import Ack, AckKind
from acemq_amqp.core.attachment import Attachment, ConsumerSpec
from acemq_amqp.core.handling import Handling, give_back, same_message
from acemq_amqp.core.isolation import Isolation
from acemq_amqp.core.observer import Observing
from acemq_amqp.core.poison import must_be_alone, poison_hop, put_back, suspected
from acemq_amqp.core.ports import (
    Arrival,
    Call,
    Deadline,
    Link,
    Subscription,
    SubscriptionEvents,
    Work,
)
from acemq_amqp.core.settlement import Hop, Settlement, settlement_of
from acemq_amqp.core.settling import Settler
from acemq_amqp.core.telling import Telling
from acemq_amqp.core.watch import ConsumerWatch
from acemq_amqp.core.workers import Workers
from acemq_amqp.durations import Duration, seconds
from acemq_amqp.errors import BrokerError
from acemq_amqp.message import Message

#: A redelivery waits so long before it looks again whether the first has ended; seconds.
_LOOK_AGAIN = 0.5
log = logging.getLogger("acemq_amqp")

#: The consumer whose handler is running here: closing it from inside only starts the stop.
_HANDLING: contextvars.ContextVar[Consumer | None] = contextvars.ContextVar(
    "acemq_handling", default=None
)


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
        self._telling = Telling(spec.queue, observing, lambda: watch.in_flight(spec.queue))
        self._inbox = work.queue()
        self._idle = work.event()
        self._gone = work.event()
        self._workers = Workers(work, self._serve, f"acemq-{spec.queue}", spec.concurrency)
        events = SubscriptionEvents(arrived=self._inbox.put, ended=self._ended)
        self._attachment = Attachment(spec, work, events, watch.retired, settler.doubt)
        self._isolation = Isolation(
            work,
            self._attachment,
            name=spec.queue,
            engaged=self._engaged,
            put_back=self._put_back,
            again=self._inbox.put,
            detached=lambda: watch.detached(self),
        )
        self._closing = False
        self._hurried = False
        #: whether its stop ended in time
        self.in_time = True
        self._busy: set[Arrival] = set()
        self._held: set[Arrival] = set()
        self._moving: set[Arrival] = set()
        #: redeliveries that wait for the end of the first delivery of their message
        self._twins: set[Arrival] = set()
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
        return not self._closing and self._attachment.live

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
        self._work.refuse_elsewhere()
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

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or self._work.here():  # else what already goes wrong elsewhere is told
            await self.close()

    # ------------------------------------------------------------ subscribing

    async def attach(self, link: Link, deadline: Deadline, *, again: bool) -> None:
        """Subscribes on a link, declaring first where failed messages go.

        :param again: it was attached before
        :raises NotFound: the queue is not there
        """
        await self._attachment.attach(link, deadline, again=again)

    async def declare_target(self, link: Link, hop: Hop, deadline: Deadline) -> None:
        """Declares where a hop goes: a rung, or again what was found missing."""
        await self._attachment.declare_target(link, hop, deadline)

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
                log.exception("acemq: a delivery of %s could not be settled", self.queue)
                self._work.later(_LOOK_AGAIN, functools.partial(self._give_back, arrival))

    async def _handle(self, taken: Arrival) -> None:
        arrival = taken
        self._busy.add(taken)
        self._telling.busy()
        try:
            if not await self._admitted(arrival):
                return
            message, ack = await self._handling.answer(arrival)
            self._telling.handled(message)
            arrival = self._to_settle(arrival)
            if ack.kind is AckKind.ACCEPT:
                arrival.settling.ack(arrival.tag)
                self._telling.counted("acked")
            else:
                self._decide(arrival, message, ack)
        except Exception:
            raise
        except BaseException:  # cancelled while stopping
            self._give_back(arrival)
            raise
        finally:
            self._busy.discard(taken)
            self._telling.busy()
            if self._closing or self._isolation.active:
                self._look_idle()

    async def _admitted(self, arrival: Arrival) -> bool:
        """Whether a delivery is to be handled: not stale, not poison, not when stopping."""
        if not self._wanted(arrival):
            return False
        if not self._attachment.probing and not suspected(arrival):
            return True
        if arrival.redelivered and self._watch.handled_elsewhere(self, arrival):
            self._twins.add(arrival)
            self._look_again(arrival)
            if self._attachment.probing:  # it is no poison, and others need not wait for it
                await self._attachment.open_up(arrival)
            return False
        return await self._examined(arrival)

    def _wanted(self, arrival: Arrival) -> bool:
        if self._closing:
            self._give_back(arrival)
        elif not arrival.settling.live:
            self._telling.counted("stale")
        else:
            return True
        return False

    def _look_again(self, twin: Arrival) -> None:
        """Holds a redelivery off for as long as the first delivery of its message is handled."""
        if twin not in self._twins:
            return  # settled by the answer to the first
        if twin.settling.live and self._watch.handled_elsewhere(self, twin):
            self._work.later(_LOOK_AGAIN, functools.partial(self._look_again, twin))
            return
        with suppress(KeyError):
            self._twins.remove(twin)
            self._inbox.put(twin)

    def _to_settle(self, arrival: Arrival) -> Arrival:
        """The delivery that an answer settles: where its own is stale, a later one if there is."""
        if not arrival.settling.live:
            for twin in list(self._twins):
                if twin.settling.live and same_message(arrival, twin):
                    self._twins.discard(twin)
                    return twin
        return arrival

    def handles(self, arrival: Arrival) -> bool:
        """Whether an earlier delivery of the same message is still being handled."""
        return any(same_message(arrival, busy) for busy in list(self._busy) if busy is not arrival)

    async def _examined(self, arrival: Arrival) -> bool:
        probing, spec = self._attachment.probing, self._spec
        if not suspected(arrival):
            if probing:
                await self._attachment.open_up(arrival)
            return self._wanted(arrival)
        alone = probing or spec.prefetch == 1 or arrival is self._isolation.chosen
        most, ordered = spec.max_deliveries, spec.single_active
        hop = poison_hop(arrival, spec.queue, alone=alone, most=most, ordered=ordered)
        if hop is not None:
            self._move(arrival, Message.received(None, arrival), hop)
            return False
        if not alone and spec.may_isolate and must_be_alone(arrival, most):
            self._isolation.take(arrival)
            return False
        return True

    def _engaged(self, stopped: Subscription | None, suspects: int) -> bool:
        """Whether it has anything in flight besides so many suspects and what it holds."""
        if self._busy or self._moving:
            return True
        if stopped is None or not stopped.live:
            return False
        return stopped.unsettled > suspects + len(self._held)

    def _put_back(self, arrival: Arrival) -> None:
        self._move(arrival, Message.received(None, arrival), put_back(arrival, self.queue))

    # ------------------------------------------------------------ settling

    def _decide(self, arrival: Arrival, message: Message, ack: Ack) -> None:
        now = datetime.fromtimestamp(self._work.clock.now(), UTC)
        settlement = settlement_of(
            ack, message.envelope, queue=self.queue, policy=self._spec.policy, now=now
        )
        self._telling.failed(message, ack, settlement)
        self._move(arrival, message, settlement)

    def _move(self, arrival: Arrival, message: Message, settlement: Settlement) -> None:
        self._moving.add(arrival)
        self._settler.settle(self, arrival, message.envelope, settlement)

    @property
    def closing(self) -> bool:
        """Whether it is stopping, and wants back what cannot be moved now."""
        return self._closing

    @property
    def spills(self) -> bool:
        """Whether a wait held here may go to the broker."""
        return self._spec.spill

    def hold(self, arrival: Arrival, *, spill: bool) -> bool:
        """Keeps a delivery for a wait, unless half the prefetch is held and it may spill."""
        if spill and self._spec.spill and len(self._held) >= self._spec.prefetch // 2:
            return False
        self._held.add(arrival)
        self._moving.discard(arrival)
        if self._attachment.probing:  # it ended no process, and others must not wait for it
            self._work.spawn(self._attachment.open_up(arrival), f"acemq-{self.queue}-opening")
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
        self._telling.counted(result)
        if self._closing or self._isolation.active:
            self._look_idle()

    # ------------------------------------------------------------ stopping

    def _give_back(self, arrival: Arrival) -> None:
        """Back to the queue. A single active one leaves that to its channel's end: in order."""
        if not self._spec.single_active:
            give_back(arrival)

    def _look_idle(self) -> None:
        self._isolation.look()
        if self._closing and not self._busy and not self._moving:
            self._idle.set()

    async def close_by(self, limit: float) -> bool:
        """As :meth:`close`, with a deadline."""
        if self._closing:
            return await self._gone.wait(limit) and self.in_time
        self._closing = True
        await self._attachment.cancel(limit)
        self._give_back_waiting()
        self._look_idle()
        idle = await self._idle.wait(limit)
        if self._hurried:
            limit = self._work.clock.monotonic()
        self.in_time = await self._workers.end(self._inbox, limit) and idle and not self._hurried
        await self._attachment.end(limit)
        self._gone.set()
        self._watch.closed(self)
        return self.in_time

    def _give_back_waiting(self) -> None:
        waiting, self._twins = self._twins, set()
        for arrival in (*self._isolation.end(), *waiting, *self._inbox.drain()):
            self._give_back(arrival)
        for arrival in list(self._held):
            if self.release(arrival) and not self._settler.hasten(arrival):
                self._moving.discard(arrival)
                self._give_back(arrival)

    def hurry(self) -> None:
        """A second signal: what still runs is not waited for."""
        self._hurried = True
        self._idle.set()
