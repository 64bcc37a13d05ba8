"""The keeper: brings consumers back after a lost connection or a cancel by the broker.

One loop for a connection. A queue declared here is declared again, however long that
takes to succeed; a consumer of another's queue is attached again when the queue is back,
and ends with an error when it does not come back in time. It never goes quiet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from acemq_amqp.core.catalogue import Catalogue, concerns, declare_each
from acemq_amqp.core.consumer import Consumer
from acemq_amqp.core.ports import Arrival, Link, Subscription, Task, Work
from acemq_amqp.core.supervisor import Supervisor, backoff
from acemq_amqp.errors import (
    BrokerError,
    BrokerTimeout,
    ConnectionLost,
    ConsumerEnded,
    DeclarationMismatch,
)
from acemq_amqp.topology import Declaration, ExchangeDeclaration

log = logging.getLogger("acemq_amqp")

#: Another's queue may come back in this time before its consumer ends; seconds.
_PATIENCE = 30.0
_ATTACH_TIME = 10.0
#: How often a replaced channel is asked whether its last delivery is settled; seconds.
_LOOK_AGAIN = 1.0


@dataclass(frozen=True, slots=True)
class _Debt:
    """What is to be declared on a link as soon as that can be done."""

    link: Link
    steps: Sequence[Declaration]
    tries: int


class Keeper:
    """Watches the consumers of one connection."""

    def __init__(
        self,
        work: Work,
        control: Supervisor,
        catalogue: Catalogue,
        gave_up: Callable[[BrokerError], None],
    ) -> None:
        self._work = work
        self._control = control
        self._catalogue = catalogue
        self._gave_up = gave_up
        self._inbox = work.queue()
        self._task: Task | None = None
        self._tries: dict[Consumer, tuple[int, float]] = {}
        self._lock = work.lock()
        self._over = False
        self.consumers: list[Consumer] = []

    async def start(self, consumer: Consumer, deadline: float) -> None:
        """Attaches a new consumer in the caller's own time, then keeps it.

        :raises BrokerError: it could not be attached; nothing is left of it
        """
        try:
            link = await self._control.connected(deadline)
            await consumer.attach(link, deadline, again=False)
        except BaseException:
            await consumer.close(0.0)
            raise
        if not self._kept(consumer):
            await consumer.close(0.0)
            raise ConnectionLost(
                f"acemq: the connection was closed while the consumer of {consumer.queue!r} was "
                "being started; open a new one"
            )
        self._start()
        if not consumer.running:  # its link was lost before the list knew it
            self._inbox.put(consumer)

    def _kept(self, consumer: Consumer) -> bool:
        with self._lock:
            if not self._over:
                self.consumers.append(consumer)
            return not self._over

    def last_consumers(self) -> list[Consumer]:
        """All that there are; none is added any more."""
        with self._lock:
            self._over = True
            return list(self.consumers)

    async def close(self, deadline: float) -> None:
        """Ends the loop."""
        if self._task is not None:
            self._inbox.put(None)
            if not await self._task.join(deadline):
                self._task.cancel()

    # ------------------------------------------------------------ told by others

    def link_opened(self, link: Link) -> None:
        """A new link: every consumer has to be attached to it."""
        for consumer in list(self.consumers):
            self._inbox.put(consumer)

    def ended(self, consumer: Consumer, error: BrokerError) -> None:
        """The broker ended a subscription while its connection goes on."""
        if not isinstance(error, ConnectionLost):
            log.warning("acemq: the consumer of %s was ended: %s", consumer.queue, error)
            self._inbox.put(consumer)

    def closed(self, consumer: Consumer) -> None:
        """A consumer has stopped for good."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        self._tries.pop(consumer, None)
        if consumer.error is not None:
            self._gave_up(consumer.error)

    def handled_elsewhere(self, consumer: Consumer, arrival: Arrival) -> bool:
        """Whether an earlier delivery of the same message still runs here (consumer_timeout)."""
        siblings = [each for each in list(self.consumers) if each.queue == consumer.queue]
        return any(each.handles(arrival) for each in siblings)

    def in_flight(self, queue: str) -> int:
        """Handlers that run for a queue now."""
        return sum(each.in_flight for each in list(self.consumers) if each.queue == queue)

    def retired(self, subscription: Subscription) -> None:
        """A subscription that another has replaced: its channel ends when it is settled."""
        self._inbox.put(subscription)

    def detached(self, consumer: Consumer) -> None:
        """A consumer wants to be attached anew."""
        self._inbox.put(consumer)

    def declare_later(
        self, link: Link, failed: Sequence[tuple[Declaration, BrokerError]], tries: int = 0
    ) -> None:
        """Declares on this link what could not be declared at once, and tries until it can.

        An exclusive queue is locked until the broker has noticed that its last connection is gone.
        """
        steps: list[Declaration] = []
        for step, failure in failed:
            if isinstance(failure, DeclarationMismatch):
                log.error("acemq: %s could not be restored: %s", step, failure)
                continue
            if not tries:
                log.warning("acemq: %s could not be restored, trying again: %s", step, failure)
            steps.append(step)
        if steps:
            debt = _Debt(link, steps, tries + 1)
            self._start()
            self._work.later(backoff(tries), lambda: self._inbox.put(debt))

    # ------------------------------------------------------------ the loop

    def _start(self) -> None:
        if self._task is None:
            self._task = self._work.spawn(self._run(), "acemq-keeper")

    async def _run(self) -> None:
        while (item := await self._inbox.get()) is not None:
            try:
                await self._see_to(item)
            except Exception:  # a fault in one of them must not end the others
                log.exception("acemq: the keeper could not see to %r", item)

    async def _see_to(self, item: Consumer | Subscription | _Debt) -> None:
        if isinstance(item, Consumer):
            await self._revive(item)
        elif isinstance(item, _Debt):
            await self._declare(item)
        else:
            await self._clear_away(item)

    async def _declare(self, debt: _Debt) -> None:
        if debt.link is not self._control.link:
            return  # the next link got all of it
        deadline = self._work.clock.monotonic() + _ATTACH_TIME
        with suppress(ConnectionLost):
            failed = await declare_each(debt.link, debt.steps, deadline)
            self.declare_later(debt.link, failed, debt.tries)

    async def _clear_away(self, subscription: Subscription) -> None:
        if not subscription.live:
            return
        if subscription.unsettled:
            self._work.later(_LOOK_AGAIN, lambda: self._inbox.put(subscription))
            return
        with suppress(BrokerError):
            await subscription.close(self._work.clock.monotonic() + _ATTACH_TIME)

    async def _revive(self, consumer: Consumer) -> None:
        link = self._control.link
        if link is None or consumer.closing or consumer.running:
            return  # an open link brings all of them here again
        try:
            await self._attach(consumer, link)
            self._tries.pop(consumer, None)
        except DeclarationMismatch as mismatch:
            self._end(consumer, mismatch)
        except BrokerError as failure:
            self._later(consumer, failure)

    async def _attach(self, consumer: Consumer, link: Link) -> None:
        deadline = self._work.clock.monotonic() + _ATTACH_TIME
        await self._restore(consumer.queue, link, deadline)
        await consumer.attach(link, deadline, again=True)
        log.info("acemq: the consumer of %s is back", consumer.queue)

    async def _restore(self, queue: str, link: Link, deadline: float) -> None:
        """Declares a queue and what leads to it: auto-delete exchanges went with it."""
        missing = [
            step
            for step in self._catalogue.plan_for(queue)
            if not isinstance(step, ExchangeDeclaration)
            or not await link.look_up_exchange(step.name, deadline)
        ]
        failed = await declare_each(link, missing, deadline)
        for step, failure in failed:
            if concerns(step, queue):
                raise failure
        self.declare_later(link, failed)

    def _later(self, consumer: Consumer, failure: BrokerError) -> None:
        now = self._work.clock.monotonic()
        tries, since = self._tries.get(consumer, (0, now))
        owned = bool(self._catalogue.plan_for(consumer.queue))
        may_pass = owned or isinstance(failure, (ConnectionLost, BrokerTimeout))
        if now - since > _PATIENCE and not may_pass:
            self._end(consumer, failure)
            return
        if not tries:
            log.warning(
                "acemq: the consumer of %s waits, trying again: %s", consumer.queue, failure
            )
        self._tries[consumer] = (tries + 1, since)
        self._work.later(backoff(tries), lambda: self._inbox.put(consumer))

    def _end(self, consumer: Consumer, failure: BrokerError) -> None:
        self._tries.pop(consumer, None)
        ended = ConsumerEnded(
            f"acemq: the consumer of {consumer.queue!r} was ended by the broker and could not be "
            f"brought back: {failure}; declare the queue again and start a new consumer",
            code=failure.code,
        )
        ended.__cause__ = failure
        log.error("%s", ended)
        consumer.fail(ended)
