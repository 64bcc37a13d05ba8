"""Handing one lane of a log to a handler: the lane is leased, and no more than it.

Other members, and pops, have the other lanes meanwhile. What failed is tried again where it stands;
the attempts are the lane's, so they count across processes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from acemq_amqp.core.ports import Call
from acemq_amqp.errors import StoreError
from acemq_amqp.eventlog.errors import LeaseLost, not_given_up
from acemq_amqp.eventlog.failing import Again, Dead, Verdict, verdict_of
from acemq_amqp.eventlog.handling import Plan
from acemq_amqp.eventlog.messages import LogMessage
from acemq_amqp.eventlog.popping import Popping, Wanted
from acemq_amqp.eventlog.reading import Reading
from acemq_amqp.eventlog.running import GLANCE, Running

log = logging.getLogger("acemq_amqp")


class LaneConsuming(Running):
    """A running reader of one lane."""

    def __init__(self, reading: Reading, call: Call, plan: Plan, lane: str) -> None:
        super().__init__(reading.work)
        self._reading = reading
        self._call = call
        self._plan = plan
        self._lane = lane
        self._popping = Popping(reading)
        self._handled = 0
        self._at: LogMessage | None = None
        self._quiet_since: float | None = None

    @property
    def reading(self) -> Reading:
        """The group, and how it reads."""
        return self._reading

    def start(self) -> None:
        """Begins. The group must have been placed."""
        name = f"acemq-{self._reading.group}-{self._reading.log.stream_of(self._lane)}"
        self._spawn(self._read(), name)
        self._spawn(self._renewing(), f"{name}-lease")

    async def _read(self) -> None:
        try:
            await self._lasting(self._lane, self._round)
        finally:
            await self._popping.close()

    async def _round(self) -> float:
        most = self._plan.batch
        if self._plan.limit is not None:
            most = min(most, self._plan.limit - self._handled)
        wanted = Wanted(most, 1, self._lane)
        passed = self._popping.passed
        messages = await self._popping.pop(wanted, self._reading.now() + GLANCE)
        self._finished(self._popping.passed - passed)
        self.well(self._lane)
        if not messages:
            self._quiet()
            return 0.0
        self._quiet_since, self._at = None, messages[0]
        try:
            pause = await self._handle(messages)
        finally:
            self._at = None
        return pause

    def _finished(self, count: int) -> None:
        self._handled += count
        if self._plan.limit is not None and self._handled >= self._plan.limit:
            self.stop()

    def _quiet(self) -> None:
        if self._popping.kept_out:  # there is something, and another has it
            self._quiet_since = None
            return
        now = self._reading.now()
        self._quiet_since = self._quiet_since or now
        if self._plan.idle is not None and now - self._quiet_since >= self._plan.idle:
            self.stop()

    async def _renewing(self) -> None:
        while not await self._pause(self._reading.store.lease / 4):
            message = self._at
            if message is not None:
                try:
                    await self._popping.renew(message)
                except (LeaseLost, StoreError) as failure:  # its acknowledgement meets it as well
                    log.warning("%s", failure)

    # ------------------------------------------------------------ handling

    async def _handle(self, messages: Sequence[LogMessage]) -> float:
        """Handles what was popped; the seconds to wait before the next pop."""
        if not self._plan.each:
            return await self._together(messages)
        done: list[LogMessage] = []
        since = self._reading.now()
        for message in messages:
            verdict = await self._asked(message, message.attempt)
            if isinstance(verdict, Again) and not verdict.counts:
                await self._ack(done)
                done = []
                verdict = await self._elsewhere(message, message, verdict)
            if isinstance(verdict, Again | Dead):
                await self._ack(done)
                return await self._failed(message, verdict)
            done.append(message)
            if self.over:
                break
            if self._reading.now() - since > self._plan.commit:
                await self._ack(done)
                done, since = [], self._reading.now()
        await self._ack(done, leave=self.over)
        return 0.0

    async def _together(self, messages: Sequence[LogMessage]) -> float:
        """Hands a list over: one that failed comes again, message by message."""
        first = messages[0]
        verdict = await self._asked(list(messages), first.attempt)
        if isinstance(verdict, Again) and not verdict.counts:
            verdict = await self._elsewhere(first, list(messages), verdict)
        if not isinstance(verdict, Again | Dead):
            await self._ack(messages)
            return 0.0
        if len(messages) > 1:
            log.warning("acemq: a batch of %s comes one by one: %s", self._lane, verdict.reason)
            await self._popping.put_back(first)
            return 0.0
        return await self._failed(first, verdict)

    async def _elsewhere(self, first: LogMessage, given: object, verdict: Verdict) -> Verdict:
        """Asks again while somebody else is at it, and keeps the lane meanwhile."""
        while isinstance(verdict, Again) and not verdict.counts:
            if await self._pause(verdict.delay):
                break
            verdict = await self._asked(given, first.attempt)
        return verdict

    async def _asked(self, given: object, attempt: int) -> Verdict:
        """What a handler says to a message, or to a list."""
        try:
            answer: object = await self._call(given)
        except Exception as failure:
            answer = failure
        settings = self._reading.settings
        return verdict_of(answer, attempt, limit=settings.retry_limit, delay=settings.retry_delay)

    async def _ack(self, messages: Sequence[LogMessage], *, leave: bool = False) -> None:
        if messages:
            await self._popping.ack(messages, leave=leave)
            self._finished(len(messages))

    async def _failed(self, message: LogMessage, verdict: Again | Dead) -> float:
        if isinstance(verdict, Dead):
            if not self._reading.settings.dead_letters:
                await self._popping.put_back(message)
                raise not_given_up(message.group, repr(message), verdict.reason)
            await self._popping.give_up(message, verdict.reason)
            self._finished(1)
            return 0.0
        await self._popping.put_back(message)
        return verdict.delay
