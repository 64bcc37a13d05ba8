"""The settler: carries out what was decided, with many hops in flight and no worker waiting.

One loop for a connection. Workers, timers and outcomes only put jobs into its
inbox. The original is acknowledged after its hop is confirmed and routed, never
before; whatever stands in the way, the job is tried again until its delivery is
stale, so no delivery is stranded and none is lost.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from acemq_amqp import headers
from acemq_amqp.core.handling import give_back
from acemq_amqp.core.hops import hop_of
from acemq_amqp.core.observer import Observing
from acemq_amqp.core.ports import (
    Arrival,
    Confirmed,
    Deadline,
    Link,
    Outcome,
    Refused,
    Task,
    Timer,
    Work,
)
from acemq_amqp.core.settlement import Hold, Hop, Settlement
from acemq_amqp.core.supervisor import Supervisor, backoff
from acemq_amqp.envelope import Envelope
from acemq_amqp.errors import BrokerError, ConfigurationError

log = logging.getLogger("acemq_amqp")

#: Hops in flight at once; they have places of their own beside the publishers' window.
_PLACES = 64
_DECLARE_TIME = 10.0


class Settled(Protocol):
    """Whose delivery a job settles: the consumer, as far as the settler knows it."""

    @property
    def queue(self) -> str: ...

    def hold(self, arrival: Arrival, *, spill: bool) -> bool:
        """Keeps a delivery for a wait. False where too many are held and it may ``spill``."""

    @property
    def spills(self) -> bool:
        """Whether a wait held here may go to the broker."""

    def release(self, arrival: Arrival) -> bool:
        """Ends a wait. False where the delivery was given back meanwhile."""

    def settled(self, arrival: Arrival, result: str) -> None:
        """The delivery is settled, or stale."""

    @property
    def closing(self) -> bool:
        """Whether it is stopping, and wants back what cannot be moved now."""

    async def declare_target(self, link: Link, hop: Hop, deadline: Deadline) -> None:
        """Declares where a hop goes, where this side declares at all."""


class Job:
    """One delivery on its way to being settled."""

    __slots__ = ("arrival", "consumer", "envelope", "held", "hop", "outcome", "timer", "tries")

    def __init__(self, consumer: Settled, arrival: Arrival, envelope: Envelope, hop: Hop) -> None:
        self.consumer = consumer
        self.arrival = arrival
        self.envelope = envelope
        self.hop = hop
        self.tries = 0
        self.held = False
        self.timer: Timer | None = None
        self.outcome: Outcome | None = None


class Settler:
    """Moves messages that were not accepted, and then acknowledges them."""

    def __init__(
        self, work: Work, sending: Supervisor, control: Supervisor, observing: Observing
    ) -> None:
        self._work = work
        self._sending = sending
        self._control = control
        self._observing = observing
        self._inbox = work.queue()
        self._queued: deque[Job] = deque()
        self._flying = 0
        #: rungs that were declared here, by the queue that they belong to
        self._standing: dict[str, set[float]] = {}
        self._missing: set[str] = set()
        #: waits held here, and where each would spill to
        self._waits: dict[Arrival, tuple[Job, Hop]] = {}
        #: deliveries whose hop was not taken, the last time it was tried
        self.stuck: set[Arrival] = set()
        self._task: Task | None = None
        self._lock = work.lock()

    # ------------------------------------------------------------ from workers

    def settle(
        self, consumer: Settled, arrival: Arrival, envelope: Envelope, settlement: Settlement
    ) -> None:
        """Takes a decision over. Never waits."""
        self._start()
        if isinstance(settlement, Hop):
            self._inbox.put(Job(consumer, arrival, envelope, settlement))
            return
        self._hold(consumer, arrival, envelope, settlement)

    def _hold(self, consumer: Settled, arrival: Arrival, envelope: Envelope, hold: Hold) -> None:
        if not consumer.hold(arrival, spill=hold.spill is not None):
            assert hold.spill is not None
            self._observing.count("acemq.messages.spilled.total", {"queue": consumer.queue})
            self._inbox.put(Job(consumer, arrival, envelope, hold.spill))
            return
        job = Job(consumer, arrival, envelope, hold.then)
        job.held = True
        if hold.spill is not None:
            self._waits[arrival] = job, hold.spill
        job.timer = self._work.later(hold.delay, lambda: self._inbox.put(job))

    def hasten(self, arrival: Arrival) -> bool:
        """Has the broker hold a wait that was held here and is released; False where it cannot."""
        job, spill = self._waits.pop(arrival, (None, None))
        if job is None or spill is None or not job.consumer.spills:
            return False
        if job.timer is not None:
            job.timer.cancel()
        self._inbox.put(Job(job.consumer, arrival, job.envelope, spill))
        return True

    def doubt(self, queue: str) -> set[float]:
        """The queue may have been made anew: its rungs, which are declared again when needed."""
        return self._standing.pop(queue, set())

    # ------------------------------------------------------------ the loop

    def _start(self) -> None:
        if self._task is None:
            with self._lock:
                if self._task is None:
                    self._task = self._work.spawn(self._run(), "acemq-settler")

    async def close(self, deadline: Deadline) -> None:
        """Ends the loop; jobs that are left stay unacknowledged, and with the broker."""
        if self._task is not None:
            self._inbox.put(None)
            if not await self._task.join(deadline):
                self._task.cancel()

    async def _run(self) -> None:
        while True:
            job: Job | None = await self._inbox.get()
            if job is None:
                return
            try:
                await self._advance(job)
            except Exception:
                log.exception("acemq: a settlement on %s failed", job.consumer.queue)
                self._again(job)

    async def _advance(self, job: Job) -> None:
        if job.held:
            job.held = False
            self._waits.pop(job.arrival, None)
            if not job.consumer.release(job.arrival):
                return
        outcome, job.outcome = job.outcome, None
        if outcome is not None:
            self._landed(job, outcome)
        elif self._flying >= _PLACES:
            self._queued.append(job)
        else:
            await self._fly(job)
        while self._queued and self._flying < _PLACES:
            await self._fly(self._queued.popleft())

    async def _fly(self, job: Job) -> None:
        if not job.arrival.settling.live:
            self._done(job, "stale")
            return
        link = self._sending.link
        if link is None:
            await self._await_link(job)
            return
        if not await self._target_stands(job):
            return
        outgoing = hop_of(
            job.arrival,
            job.envelope,
            job.hop,
            queue=job.consumer.queue,
            login=link.broker.login,
        )
        self._flying += 1
        link.submit(outgoing, self._lander(job))

    def _lander(self, job: Job) -> Callable[[Outcome], None]:
        def landed(outcome: Outcome) -> None:
            job.outcome = outcome
            self._inbox.put(job)

        return landed

    def _landed(self, job: Job, outcome: Outcome) -> None:
        self._flying -= 1
        if isinstance(outcome, Confirmed) and outcome.routed:
            job.arrival.settling.ack(job.arrival.tag)
            self._done(job, job.hop.result)
            self._count(job)
            return
        if isinstance(outcome, Refused) and outcome.stored == "no" and outcome.code == 406:
            log.error("acemq: a hop to %s was refused: %s", job.hop.target, outcome.reason)
        self._missed(job, outcome)
        self._again(job)

    async def _await_link(self, job: Job) -> None:
        """The sending connection is opened on first use, by a hop too; never waited for here."""
        try:
            await self._sending.connected(self._work.clock.monotonic())
        except BrokerError as failure:
            log.debug("acemq: a hop waits for its connection: %s", failure)
        self._again(job)

    # ------------------------------------------------------------ what stands in the way

    def _again(self, job: Job) -> None:
        if job.consumer.closing and job.tries:
            give_back(job.arrival)
            self._done(job, "stale")
            return
        wait = backoff(job.tries)
        job.tries += 1
        self._work.later(wait, lambda: self._inbox.put(job))

    def _done(self, job: Job, result: str) -> None:
        self.stuck.discard(job.arrival)
        job.consumer.settled(job.arrival, result)

    def _missed(self, job: Job, outcome: Outcome) -> None:
        """A hop was not taken: the original stays, and the hop is tried again."""
        hop, queue = job.hop, job.consumer.queue
        self.stuck.add(job.arrival)
        name, kind = "acemq.messages.set.aside.failed", "target"
        if hop.rung is not None:
            name, kind = "acemq.retry.rung.missing", "rung"
        self._observing.count(name, {"queue": queue, kind: hop.target})
        if job.tries == 0:
            log.warning(
                "acemq: a message of %s could not be moved to %s (%s); it stays in %s and is "
                "tried again",
                queue,
                hop.target,
                getattr(outcome, "reason", "") or outcome,
                queue,
            )
        if isinstance(outcome, Confirmed):
            self._missing.add(hop.target)

    async def _target_stands(self, job: Job) -> bool:
        """Declares a rung not declared yet, and any target that was found missing."""
        hop = job.hop
        known = hop.rung is None or hop.rung in self._standing.get(job.consumer.queue, ())
        if known and hop.target not in self._missing:
            return True
        deadline = self._work.clock.monotonic() + _DECLARE_TIME
        try:
            control = await self._control.connected(deadline)
            await job.consumer.declare_target(control, hop, deadline)
        except (BrokerError, ConfigurationError) as failure:
            log.warning("acemq: %s cannot be declared: %s", hop.target, failure)
            self._again(job)
            return False
        if hop.rung is not None:
            self._standing.setdefault(job.consumer.queue, set()).add(hop.rung)
        self._missing.discard(hop.target)
        return True

    def _count(self, job: Job) -> None:
        if not self._observing.watched:
            return
        queue, result = job.consumer.queue, job.hop.result
        if result == "retried":
            labels = {"queue": queue, "where": _where(job.hop)}
            self._observing.count("acemq.messages.retried.total", labels)
        elif result in ("rejected", "dead_lettered", "parked"):
            self._observing.count(
                "acemq.messages.dead.lettered.total", {"queue": queue, "outcome": result}
            )


def _where(hop: Hop) -> str:
    """Where it waited for its next attempt; one that was put back is still in its last."""
    if headers.ATTEMPT not in hop.put:
        return "requeued"
    return "consumer" if hop.rung is None else "broker"
