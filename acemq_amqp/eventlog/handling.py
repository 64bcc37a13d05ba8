"""Handing what one hold gives to a handler, message after message, and committing as it is done.

What is handled is committed some at a time, together with the note of what was begun: so a reader
that ends in the middle leaves behind which messages may have ended it, and those are handled one by
one, each attempt counted before it is made. One that ends its readers again and again becomes a
dead letter, and its neighbours are handled.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from acemq_amqp.core.ports import Call
from acemq_amqp.errors import BrokerError, MessageError, StoreError
from acemq_amqp.eventlog.errors import not_given_up
from acemq_amqp.eventlog.failing import (
    Again,
    Dead,
    Verdict,
    dead_letter,
    given_up,
    killed_readers,
    verdict_of,
)
from acemq_amqp.eventlog.holding import Held
from acemq_amqp.eventlog.limits import Quota
from acemq_amqp.eventlog.messages import LogMessage
from acemq_amqp.eventlog.records import LogRecord
from acemq_amqp.eventlog.running import GLANCE, Stopped
from acemq_amqp.eventlog.store import Step

log = logging.getLogger("acemq_amqp")


@dataclass(frozen=True, slots=True)
class Plan:
    """How messages are handed over.

    :ivar each: one by one; else as lists
    :ivar batch: messages of a list, or between commits
    :ivar commit: seconds after which what is handled is committed, where handlers are slow
    :ivar limit: messages in all, after which reading ends; None has no end
    :ivar idle: seconds without a message, all read, after which reading ends; None goes on
    """

    each: bool = True
    batch: int = 100
    commit: float = 0.05
    limit: int | None = None
    idle: float | None = None


class Whole(Protocol):
    """The reader of all streams, as one of them sees it."""

    @property
    def over(self) -> bool:
        """Whether it is to end."""

    def stop(self) -> None:
        """Ends it."""

    def busy(self, stream: str) -> None:
        """Something came."""

    def quiet(self, stream: str) -> None:
        """Nothing came, and all is read."""

    async def pause(self, seconds: float) -> bool:
        """Waits; True where it is to end."""


class Handling:
    """One hold, handled."""

    def __init__(self, whole: Whole, hold: Held, call: Call, plan: Plan, quota: Quota) -> None:
        self._whole = whole
        self._hold = hold
        self._reading = hold.reading
        self._call = call
        self._plan = plan
        self._quota = quota
        self._claimed = 0
        self._seen: list[str] = []

    async def run(self) -> None:
        """Handles what comes, until that is to end, or the hold or its attachment ends.

        What is handled is committed before, where it still can be.
        """
        try:
            if self._hold.unfinished > self._hold.done.upto:
                await self._one_by_one(self._hold.unfinished)
            await self._onwards()
        except BrokerError:
            await self._settle()
            raise
        finally:
            self._quota.give_back(self._claimed)

    async def _onwards(self) -> None:
        records: list[LogRecord] = []
        while not self._whole.over:
            if not records:
                records = await self._take(self._plan.batch, self._reading.now() + GLANCE)
            if not records:
                await self._nothing()
                continue
            self._whole.busy(self._hold.stream)
            await self._settle(records)
            await self._handle(records)
            # where more is there already, it begins with the commit of what is done
            records = await self._take(self._plan.batch, self._reading.now())
            if not records:
                await self._settle()
        await self._settle()

    async def _nothing(self) -> None:
        await self._settle()  # what was passed over
        await self._hold.look()
        if self._hold.stands.caught_up:
            self._whole.quiet(self._hold.stream)

    async def _take(self, most: int, deadline: float) -> list[LogRecord]:
        if self._whole.over:
            return []
        if not await self._hold.stands.wait(deadline):  # what is claimed must not wait for it
            return []
        most = self._quota.claim(most)
        if not most:  # others handle the last ones, or give them back
            await self._whole.pause(max(0.0, deadline - self._reading.now()))
            return []
        self._claimed += most
        records = await self._hold.take(most, self._reading.now())
        fresh = await self._reading.unseen(records)
        fresh = [each for each in fresh if not each.window or each.window.id not in self._seen]
        if len(fresh) < len(records):
            self._hold.pass_over(fresh)
        self._give_back(most - len(fresh))
        return fresh

    def _give_back(self, count: int) -> None:
        self._claimed -= count
        self._quota.give_back(count)

    # ------------------------------------------------------------ handling

    async def _handle(self, records: Sequence[LogRecord]) -> None:
        if not self._plan.each:
            if not await self._together(records):
                for record in records:
                    await self._alone(record, records[-1].offset + 1, attempt=2)
            return
        end = records[-1].offset + 1
        now = self._reading.now
        for record in records:
            await self._alone(record, end)
            if self._whole.over:
                return
            if now() - self._hold.written_at > self._plan.commit:
                await self._settle(records)

    async def _together(self, records: Sequence[LogRecord]) -> bool:
        """Hands a list over; False where it must be handled one by one."""
        try:
            messages = [await self._message(record, 1) for record in records]
            answer: object = await self._call(messages)
        except Exception as failure:
            answer = failure
        verdict = self._verdict(answer, 1)
        if isinstance(verdict, Again | Dead):
            log.warning(
                "acemq: a batch of %s is handled one by one: %s", self._hold.stream, verdict.reason
            )
            return False
        self._done(records)
        return True

    async def _alone(self, record: LogRecord, end: int, attempt: int = 1) -> None:
        """Handles one message until it is done or given up.

        :param end: offset before which all was begun that is not done
        """
        while isinstance(verdict := await self._attempt(record, attempt), Again):
            attempt += verdict.counts
            await self._commit(Step(0, begun=end, attempts=attempt - 1))
            await self._rest(verdict.delay)
        if isinstance(verdict, Dead):
            await self._bury(record, verdict.reason, attempt, end)
        self._done((record,))

    async def _attempt(self, record: LogRecord, attempt: int) -> Verdict:
        try:
            message = await self._message(record, attempt)
        except StoreError as failure:
            return Again(self._reading.settings.retry_delay, str(failure), counts=False)
        except MessageError as failure:
            return self._verdict(failure, attempt)
        try:
            answer: object = await self._call(message if self._plan.each else [message])
        except Exception as failure:
            answer = failure
        return self._verdict(answer, attempt)

    def _verdict(self, answer: object, attempt: int) -> Verdict:
        settings = self._reading.settings
        return verdict_of(answer, attempt, limit=settings.retry_limit, delay=settings.retry_delay)

    async def _message(self, record: LogRecord, attempt: int) -> LogMessage:
        reading = self._reading
        payload = await reading.decoding.payload(record)
        return LogMessage(record, payload, reading.log.name, reading.group, attempt)

    async def _rest(self, seconds: float) -> None:
        """Waits before the next attempt.

        :raises Stopped: it is to end; another takes it up
        :raises LeaseLost: another has taken it up already, or the group was sought
        """
        until = self._reading.now() + seconds
        while not self._whole.over and (left := until - self._reading.now()) > 0:
            await self._whole.pause(min(left, GLANCE))
            await self._hold.look()
        if self._whole.over:
            raise Stopped

    def _done(self, records: Sequence[LogRecord]) -> None:
        self._hold.finish(records[-1])
        self._seen += [record.window.id for record in records if record.window is not None]
        self._claimed -= len(records)
        if self._quota.finish(len(records)):
            self._whole.stop()

    async def _bury(self, record: LogRecord, reason: str, attempt: int, end: int) -> None:
        reading = self._reading
        if not reading.settings.dead_letters:
            await self._settle()
            raise not_given_up(reading.group, f"{record.stream}@{record.offset}", reason)
        given_up(record, reason)
        letter = dead_letter(reading.log.name, reading.group, record, reason, attempt)
        self._hold.finish(record)
        await self._commit(Step(0, begun=end, records=(letter,)))
        reading.wake()

    # ------------------------------------------------------------ committing

    async def _settle(self, begun: Sequence[LogRecord] = ()) -> None:
        """Commits what is done, and that these are begun, where that is not so already."""
        if self._seen:
            await self._commit(Step(0, begun=begun[-1].offset + 1 if begun else 0))
        else:
            await self._hold.settle(begun)

    async def _commit(self, step: Step) -> None:
        """Commits what is done; windows that were handled are noted with it."""
        await self._hold.commit(replace(step, seen=tuple(self._seen)))
        self._seen.clear()

    # ------------------------------------------------------------ what a reader died with

    async def _one_by_one(self, end: int) -> None:
        """Handles what a former reader had begun, and counts each attempt before it is made."""
        attempt = self._hold.position.attempts + 1
        while not self._whole.over and self._hold.done.upto < end:
            records = await self._take(1, self._reading.now() + GLANCE)
            if records:
                self._whole.busy(self._hold.stream)
                await self._counted(records[0], end, attempt)
                attempt = 1
            elif self._hold.stands.caught_up:
                return

    async def _counted(self, record: LogRecord, end: int, attempt: int) -> None:
        settings = self._reading.settings
        dead = killed_readers(attempt, settings.retry_limit)
        if dead is not None and settings.dead_letters:
            await self._bury(record, dead.reason, attempt - 1, end)
            return self._done((record,))
        await self._commit(Step(0, begun=end, attempts=attempt))
        await self._alone(record, end, attempt)
