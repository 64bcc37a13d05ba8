"""Handing a group's messages to a handler, stream by stream, each held whole by one member.

The streams of a log are read side by side, one message after the other in each. What is handled is
committed some at a time, together with the note of what was begun: so a reader that ends in the
middle leaves behind which messages may have ended it, and those are handled one by one, each
attempt counted before it is made. One that ends its readers again and again becomes a dead letter,
and its neighbours are handled.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from acemq_amqp.core.ports import Call
from acemq_amqp.errors import MessageError, StoreError
from acemq_amqp.eventlog.errors import LeaseLost
from acemq_amqp.eventlog.failing import (
    Again,
    Dead,
    Verdict,
    dead_letter,
    killed_readers,
    verdict_of,
)
from acemq_amqp.eventlog.holding import Held, held
from acemq_amqp.eventlog.messages import LogMessage
from acemq_amqp.eventlog.reading import Reading
from acemq_amqp.eventlog.records import LogRecord
from acemq_amqp.eventlog.running import GLANCE, Running, Stopped
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


class Consuming(Running):
    """A running reader of all lanes."""

    def __init__(self, reading: Reading, call: Call, plan: Plan) -> None:
        super().__init__(reading.work)
        self._reading = reading
        self._call = call
        self._plan = plan
        self._left = plan.limit
        self._handled = 0
        self._lock = reading.work.lock()
        self._holds: dict[str, Held] = {}
        self._quiet: dict[str, float] = {}

    def start(self) -> None:
        """Begins. The group must have been placed."""
        name = f"acemq-{self._reading.group}"
        for stream in self._reading.log.streams:
            self._spawn(self._read(stream), f"{name}-{stream}")
        self._spawn(self._renewing(), f"{name}-leases")

    # ------------------------------------------------------------ one stream

    async def _read(self, stream: str) -> None:
        async def attempt() -> float:
            if await self._hold(stream):
                return 0.0
            return min(1.0, self._reading.store.lease / 3)

        await self._lasting(stream, attempt)

    async def _hold(self, stream: str) -> bool:
        """Reads a stream until that ends; False where another member reads it."""
        hold = await held(self._reading, stream)
        if hold is None:
            return False
        self._holds[stream] = hold
        try:
            if hold.unfinished > hold.done.upto:
                await self._one_by_one(hold)
            await self._onwards(hold)
        finally:
            del self._holds[stream]
            self._quiet.pop(stream, None)
            await hold.leave()
        return True

    async def _renewing(self) -> None:
        """Keeps holds alive while handlers run."""
        while not self.over:
            await self._pause(self._reading.store.lease / 4)
            for hold in list(self._holds.values()):
                try:
                    await hold.keep()
                except (LeaseLost, StoreError) as failure:  # its next commit meets it as well
                    log.warning("%s", failure)

    async def _onwards(self, hold: Held) -> None:
        records: list[LogRecord] = []
        while not self.over:
            if not records:
                records = await self._take(hold, self._reading.now() + GLANCE)
            if not records:
                if self._all_quiet(hold):
                    return
                continue
            self._quiet.pop(hold.stream, None)
            await hold.settle(records)
            await self._handle(hold, records)
            # where more is there already, it begins with the commit of what is done
            records = [] if self.over else await self._take(hold, self._reading.now())
            if not records:
                await hold.settle()
        self._give_back(len(records))
        await hold.settle()

    async def _take(self, hold: Held, deadline: float) -> list[LogRecord]:
        most = self._claim(self._plan.batch)
        if not most:  # others handle the last ones, or give them back
            await self._stopping.wait(deadline)
            return []
        records: list[LogRecord] = []
        try:
            records = await hold.take(most, deadline)
        finally:
            self._give_back(most - len(records))
        return await self._unseen(hold, records)

    async def _unseen(self, hold: Held, records: list[LogRecord]) -> list[LogRecord]:
        ids = [record.window.id for record in records if record.window]
        if not ids:
            return records
        fresh = await self._reading.store.unseen(self._reading.group, ids)
        kept = [each for each in records if each.window is None or each.window.id in fresh]
        self._give_back(len(records) - len(kept))
        if not kept:
            hold.finish(records[-1])
        return kept

    # ------------------------------------------------------------ limit and idleness

    def _claim(self, most: int) -> int:
        with self._lock:
            if self._left is None:
                return most
            most = min(most, self._left)
            self._left -= most
            return most

    def _give_back(self, count: int) -> None:
        with self._lock:
            if self._left is not None:
                self._left += count

    def _finished(self, count: int) -> None:
        with self._lock:
            self._handled += count
        if self._plan.limit is not None and self._handled >= self._plan.limit:
            self.stop()

    def _all_quiet(self, hold: Held) -> bool:
        """Whether nothing has come for so long that reading ends; it is asked to, then."""
        if self._plan.idle is None or not hold.stands.caught_up:
            return False
        now = self._reading.now()
        self._quiet.setdefault(hold.stream, now)
        if len(self._quiet) < len(self._holds):
            return False
        if now - max(self._quiet.values()) < self._plan.idle:
            return False
        self.stop()
        return True

    # ------------------------------------------------------------ handling

    async def _handle(self, hold: Held, records: Sequence[LogRecord]) -> None:
        if self._plan.each:
            for place, record in enumerate(records, 1):
                await self._alone(hold, record, records)
                if self.over:
                    return self._give_back(len(records) - place)
                if self._reading.now() - hold.written_at > self._plan.commit:
                    await hold.settle(records)
            return
        if not await self._together(hold, records):
            for record in records:
                await self._alone(hold, record, records, attempt=2)

    async def _together(self, hold: Held, records: Sequence[LogRecord]) -> bool:
        """Hands a list over; False where it must be handled one by one."""
        try:
            messages = [await self._message(record, 1) for record in records]
            answer: object = await self._call(messages)
        except Exception as failure:
            answer = failure
        verdict = self._verdict(answer, 1)
        if isinstance(verdict, Again | Dead):
            log.warning("acemq: a batch of %s is handled one by one: %s", hold.stream, verdict)
            return False
        hold.finish(records[-1])
        await self._note(hold, records)
        self._finished(len(records))
        return True

    async def _alone(
        self, hold: Held, record: LogRecord, batch: Sequence[LogRecord], attempt: int = 1
    ) -> None:
        """Handles one message until it is done or given up."""
        while True:
            verdict = await self._attempt(record, attempt)
            if not isinstance(verdict, Again):
                break
            attempt += verdict.counts
            await hold.commit(Step(0, begun=batch[-1].offset + 1, attempts=attempt - 1))
            if await self._pause(verdict.delay):
                raise Stopped
        hold.finish(record)
        if isinstance(verdict, Dead):
            await self._bury(hold, record, verdict.reason, attempt)
        else:
            await self._note(hold, (record,))
        self._finished(1)

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
        payload = await self._reading.decoding.payload(record)
        reading = self._reading
        return LogMessage(
            record, payload, queue=reading.log.name, group=reading.group, attempt=attempt
        )

    async def _note(self, hold: Held, records: Sequence[LogRecord]) -> None:
        """Windows that were handled are noted with the position that passes them."""
        seen = [record.window.id for record in records if record.window]
        if seen:
            await hold.commit(Step(0, seen=seen))

    async def _bury(self, hold: Held, record: LogRecord, reason: str, attempt: int) -> None:
        reading = self._reading
        log.error("acemq: %s@%d is a dead letter: %s", record.stream, record.offset, reason)
        letter = dead_letter(reading.log.name, reading.group, record, reason, attempt)
        await hold.commit(Step(0, records=(letter,)))

    # ------------------------------------------------------------ what a reader died with

    async def _one_by_one(self, hold: Held) -> None:
        """Handles what a former reader had begun, and counts each attempt before it is made."""
        end, attempt = hold.unfinished, hold.position.attempts + 1
        while not self.over and hold.done.upto < end:
            most = self._claim(1)
            if not most:
                return
            records = await hold.take(most, self._reading.now() + GLANCE)
            if not records:
                self._give_back(most)
                if hold.stands.caught_up:
                    break
                continue
            await self._counted(hold, records, end, attempt)
            attempt = 1

    async def _counted(
        self, hold: Held, records: Sequence[LogRecord], end: int, attempt: int
    ) -> None:
        dead = killed_readers(attempt, self._reading.settings.retry_limit)
        if dead is not None:
            hold.finish(records[0])
            await self._bury(hold, records[0], dead.reason, attempt - 1)
            return self._finished(1)
        await hold.commit(Step(0, begun=end, attempts=attempt))
        await self._alone(hold, records[0], records, attempt)
