"""One stream worked on for a query, from when it was taken until it is given back.

A cycle reads a batch, works it out, and commits all at once: windows, results as outbox records,
the user's own writes, and the position, under the hold's fence and the query's generation. What
comes next is noted in the same commit as begun: so where a process ends in the middle, the
messages that may have ended it are known, and are worked on one by one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from acemq_amqp.ack import described
from acemq_amqp.errors import AceMQError, BrokerError, StoreError
from acemq_amqp.eventlog.cycle import Batch, Cycle, reason_of
from acemq_amqp.eventlog.errors import QueryFailed
from acemq_amqp.eventlog.failing import dead_letter, killed_readers
from acemq_amqp.eventlog.holding import Held
from acemq_amqp.eventlog.query_run import OUR_OWN, Ending, QueryRun, patiently
from acemq_amqp.eventlog.records import LogRecord
from acemq_amqp.eventlog.sinks import Output, records_of
from acemq_amqp.eventlog.store import Step
from acemq_amqp.eventlog.windowing import NO_CHANGE, Change, Windowing
from acemq_amqp.eventlog.windows.values import WindowPlan
from acemq_amqp.patterns.outbox import OutboxRecord

log = logging.getLogger("acemq_amqp")

#: A gate that is shut is tried again after so many seconds.
_GATE: Final = 0.2
_FORGET_EVERY: Final = 60.0


class StreamWorker:
    """Works on a stream until the query ends, or the hold or its attachment does.

    :param what: its name among the query's streams, for trouble
    """

    def __init__(
        self, run: QueryRun, hold: Held, plan: WindowPlan | None, ending: Ending, what: str
    ) -> None:
        self._run = run
        self._hold = hold
        self._ending = ending
        self._what = what
        self._reading = run.reading
        self._cycle = Cycle(run.job, run.query, plan, run.reading.decoding)
        store = run.reading.store
        self._windowing = None if plan is None else Windowing(store, plan, hold.stream)
        #: the range that may have ended a process, and how often its first message did
        self._suspects = (hold.unfinished, hold.position.attempts)
        self._failed = 0
        self._started = run.reading.work.clock.now()
        self._flush_at = 0.0
        self._forget_at = run.reading.now() + _FORGET_EVERY

    async def run(self) -> None:
        """Works until it is to end. What is not committed by then is not begun either."""
        try:
            await self._cycles()
            if self._hold.owes:
                await self._hold.settle()
        except Exception:
            with suppress(AceMQError):
                await self._hold.back_out(*self._suspects)
            raise
        await self._hold.back_out(*self._suspects)

    async def _cycles(self) -> None:
        if self._windowing is not None:
            await self._windowing.begin()
            self._cycle.read = self._windowing.read
        if self._hold.unfinished > self._hold.done.upto:
            await self._one_by_one()
        self._suspects = (0, 0)
        waiting: list[LogRecord] = []
        while not self._ending.over:
            if waiting:
                waiting = await self._work(waiting)
                continue
            records = await self._take(self._run.limits.batch)
            if not records:
                await self._quiet()
                continue
            await self._hold.settle(records)
            waiting = await self._work(records)

    async def _take(self, most: int) -> list[LogRecord]:
        records = await self._hold.take(most, self._reading.now() + self._run.limits.wait)
        self._ending.well(self._what)
        return records

    async def _one_by_one(self) -> None:
        """Works on what a process had begun that ended, each attempt counted before it is made."""
        hold, (end, ended) = self._hold, self._suspects
        while not self._ending.over and hold.done.upto < end:
            self._suspects = (end, ended)
            records = await self._take(1)
            if not records:
                if hold.stands.caught_up:
                    return
                continue
            settings = self._reading.settings
            dead = killed_readers(ended + 1, settings.retry_limit)
            if dead is not None and settings.dead_letters:
                letter = self._letter(records[0], dead.reason, ended)
                hold.finish(records[0])
                await hold.commit(Step(0, begun=end, records=(letter,)))
                self._run.wake()
            else:
                await hold.commit(Step(0, begun=end, attempts=ended + 1))
                while await self._work(records, end) and not self._ending.over:
                    pass  # its gate is shut
            ended = 0

    # ------------------------------------------------------------ one cycle

    async def _work(self, records: Sequence[LogRecord], end: int = 0) -> list[LogRecord]:
        """Works on messages and commits; gives what comes next, or waits for its gate.

        :param end: where messages are worked on one by one, the offset before which that ends
        """
        fresh = await self._unseen(records)
        batch = await self._cycle.batch(records, fresh, self._reading.work.clock.now())
        if not batch.done:
            await self._ending.pause(_GATE)
            return list(records)
        change = NO_CHANGE
        if self._windowing is not None:
            change = await self._windowing.fold(batch.events)
            batch.failed |= {event.offset: error for event, error in change.folded.failed}
        self._count_failures(batch)
        outputs = [*batch.outputs, *self._results(change)]
        await self._tell(outputs)
        self._hold.finish(batch.done[-1])
        upcoming = list(records[len(batch.done) :])
        if not upcoming and not end and not self._ending.over:
            upcoming = await self._hold.take(self._run.limits.batch, self._reading.now())
        begun = upcoming[-1].offset + 1 if upcoming and not end else end
        await self._commit(change, outputs, batch, begun)
        return upcoming

    async def _unseen(self, records: Sequence[LogRecord]) -> set[str]:
        ids = [record.window.id for record in records if record.window is not None]
        return await self._reading.store.unseen(self._reading.group, ids) if ids else set()

    def _count_failures(self, batch: Batch) -> None:
        """Ends the query where messages fail in a row, before they are passed.

        :raises QueryFailed: they are too many
        """
        most = self._run.limits.errors if self._reading.settings.dead_letters else 1
        for record in batch.done:
            failure = batch.failed.get(record.offset)
            self._failed = self._failed + 1 if failure is not None else 0
            if self._failed >= most:
                raise QueryFailed(
                    f"acemq: query {self._run.query.id!r} failed on {self._failed} messages in a "
                    f"row, the last {record.stream}@{record.offset} with "
                    f"{type(failure).__name__}: {failure}. It stopped after offset "
                    f"{self._hold.committed.upto - 1}: mend it, and run it again"
                ) from failure

    async def _tell(self, outputs: Sequence[Output]) -> None:
        """Calls the user's function for each result."""
        each = self._run.each
        if each is None:
            return
        what = f"foreach() of query {self._run.query.id!r}"
        for output in outputs:

            async def told(output: Output = output) -> None:
                await each(output)

            await patiently(self._ending, what, told, self._run.limits.errors)

    # ------------------------------------------------------------ one commit

    async def _commit(
        self, change: Change, outputs: Sequence[Output], batch: Batch, begun: int = 0
    ) -> None:
        """Writes all of it, and then what was ripe and too much for one commit."""
        await self._write(change, outputs, batch, begun)
        while change.more and self._windowing is not None:
            change = await self._windowing.rest()
            outputs = self._results(change)
            await self._tell(outputs)
            await self._write(change, outputs, Batch(), self._hold.begun)

    async def _write(
        self, change: Change, outputs: Sequence[Output], batch: Batch, begun: int
    ) -> None:
        letters = [
            self._letter(record, reason_of(batch.failed[record.offset]), 1)
            for record in (batch.done if batch.failed else ())
            if record.offset in batch.failed
        ]
        step = Step(
            0,
            begun=begun,
            records=[*self._records(change, outputs, batch), *letters],
            seen=batch.seen,
            query=self._run.query,
            windows=change.closed.rows,
            closed=change.closed.gone,
            watermarks=change.progress.watermarks(),
            work=self._user_writes(outputs),
        )

        async def written() -> None:
            await self._hold.commit(step)

        what = f"write() of query {self._run.query.id!r}"
        await patiently(self._ending, what, written, self._run.limits.errors, OUR_OWN)
        if self._windowing is not None:
            self._windowing.committed(change)
        if step.records:
            self._run.wake()
        self._run.tally.add(
            events=len(batch.done),
            results=len(outputs),
            dead_letters=len(letters),
            late=change.folded.counts,
        )

    def _records(
        self, change: Change, outputs: Sequence[Output], batch: Batch
    ) -> list[OutboxRecord]:
        job, now = self._run.job, self._reading.work.clock.now()
        if self._windowing is None:
            return batch.records
        late = self._cycle.late(change.folded.side, self._hold.stream)
        with self._giving():
            return records_of(job.sink, outputs, now) + records_of(job.late, late, now)

    def _results(self, change: Change) -> list[Output]:
        with self._giving():
            return self._cycle.results(change.closed.results)

    @contextmanager
    def _giving(self) -> Iterator[None]:
        """
        :raises QueryFailed: a result cannot be made, or cannot travel; trying again is no help
        """
        try:
            yield
        except (StoreError, BrokerError):  # a payload's store is away, say
            raise
        except Exception as failure:
            raise QueryFailed(
                f"acemq: query {self._run.query.id!r} cannot give a result: {described(failure)}. "
                "What it was made of is not committed: mend what stands behind aggregate(), and "
                "run it again"
            ) from failure

    def _user_writes(self, outputs: Sequence[Output]) -> Callable[[Any], None] | None:
        writes = self._run.job.writes
        if writes is None or not outputs:
            return None
        return lambda connection: writes(connection, list(outputs))

    def _letter(self, record: LogRecord, reason: str, attempt: int) -> OutboxRecord:
        reading = self._reading
        log.error("acemq: %s@%d is a dead letter: %s", record.stream, record.offset, reason)
        return dead_letter(reading.log.name, reading.group, record, reason, attempt)

    # ------------------------------------------------------------ nothing comes

    async def _quiet(self) -> None:
        """Commits what was passed over, and closes windows whose time is up."""
        if self._hold.owes:
            await self._hold.settle()
        now, window = self._reading.now(), self._run.job.window
        if window is None or now < self._flush_at or not self._hold.stands.caught_up:
            return
        self._flush_at = now + window.idle_flush
        await self._flush()
        if now >= self._forget_at:
            self._forget_at = now + _FORGET_EVERY
            await self._forget()

    async def _flush(self) -> None:
        assert self._windowing is not None
        clock = self._reading.work.clock.now()
        change = await self._windowing.quiet(clock, self._cycle.read or self._started)
        if not change.closed.results and not change.closed.gone:
            return
        # a message that is there and was not read yet may belong into one of them
        ends = await self._reading.log.ends(self._hold.stream)
        if ends.tail >= self._hold.stands.upto:
            return
        outputs = self._results(change)
        await self._tell(outputs)
        await self._commit(change, outputs, Batch())

    async def _forget(self) -> None:
        """Drops watermarks of lanes that have long been quiet."""
        assert self._windowing is not None
        await self._write(self._windowing.nothing(), (), Batch(), 0)
        await self._windowing.forget()
