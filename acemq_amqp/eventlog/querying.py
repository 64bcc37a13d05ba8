"""Running a query: cycles that read a batch, fold it, close what is ripe, and commit all at once.

Each stream of the log is held whole by one runner. A commit writes the windows touched, the
results as outbox records, the user's own writes and the position together, guarded by the hold's
fence: a runner that slept past its lease commits nothing. Where nothing comes, ripe windows are
looked for in the database, so an hour-long window on a quiet lane closes after a restart too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from acemq_amqp.core.ports import Call
from acemq_amqp.errors import AceMQError, MessageError, StoreError
from acemq_amqp.eventlog.cycle import Batch, Cycle, failures_of
from acemq_amqp.eventlog.errors import LeaseLost
from acemq_amqp.eventlog.failing import Dead, dead_letter, killed_readers, verdict_of
from acemq_amqp.eventlog.holding import Held, held
from acemq_amqp.eventlog.job import Job
from acemq_amqp.eventlog.reading import Reading
from acemq_amqp.eventlog.records import LogRecord
from acemq_amqp.eventlog.running import GLANCE, Running
from acemq_amqp.eventlog.sinks import Output, records_of
from acemq_amqp.eventlog.store import Query, Step, WindowRow
from acemq_amqp.eventlog.windows.closing import advanced, closed, due, forgettable
from acemq_amqp.eventlog.windows.folding import fold_events
from acemq_amqp.eventlog.windows.progress import Progress
from acemq_amqp.eventlog.windows.values import Closed, Counts, Folded, WindowPlan
from acemq_amqp.patterns.outbox import OutboxRecord

log = logging.getLogger("acemq_amqp")

#: Windows that one commit closes at most.
_RIPE: Final = 1000
#: A gate that is shut is tried again after so many seconds.
_GATE: Final = 0.2
_FORGET_EVERY: Final = 60.0


class TooManyFailures(AceMQError):
    """Message after message could not be worked on: it is the query that is wrong."""


@dataclass(slots=True)
class Tally:
    """What a query has done since it was started here."""

    events: int = 0
    results: int = 0
    dead_letters: int = 0
    late: Counts = field(default_factory=Counts)

    def add(self, counts: Counts) -> None:
        """Adds what became of late events."""
        mine = self.late
        self.late = Counts(
            mine.dropped + counts.dropped,
            mine.side + counts.side,
            mine.included + counts.included,
            mine.partly + counts.partly,
            mine.moved + counts.moved,
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """How a query goes about it.

    :ivar batch: messages of a cycle at most
    :ivar wait: seconds that a look for messages lasts
    :ivar error_limit: messages in a row that may fail before the query ends
    """

    batch: int = 500
    wait: float = GLANCE
    error_limit: int = 100


class Querying(Running):
    """A query that runs.

    :param wake: tells the relay that there is something to send
    """

    def __init__(
        self,
        reading: Reading,
        job: Job,
        query: Query,
        how: Pace,
        wake: Callable[[], None],
    ) -> None:
        super().__init__(reading.work)
        self._reading = reading
        self._job = job
        self._query = query
        self._how = how
        self._wake = wake
        self._plan = _plan_of(job, query)
        self._each: Call | None = None if job.each is None else reading.work.bind(job.each)
        self._holds: dict[str, Held] = {}
        self._failing = 0
        self.tally = Tally()

    def start(self) -> None:
        """Begins. The query must be registered, and its group placed."""
        for stream in self._reading.log.streams:
            self._spawn(self._read(stream), f"acemq-{self._query.id}-{stream}")
        self._spawn(self._renewing(), f"acemq-{self._query.id}-leases")

    @property
    def reading(self) -> Reading:
        """What it reads."""
        return self._reading

    @property
    def query(self) -> Query:
        """What it is in the store."""
        return self._query

    # ------------------------------------------------------------ one stream

    async def _read(self, stream: str) -> None:
        async def attempt() -> float:
            hold = await held(self._reading, stream)
            if hold is None:
                return min(1.0, self._reading.store.lease / 3)
            self._holds[stream] = hold
            try:
                await _Turn(self, hold).run()
            finally:
                del self._holds[stream]
                await hold.leave()
            return 0.0

        await self._lasting(f"{stream} for query {self._query.id!r}", attempt)

    async def _renewing(self) -> None:
        while not await self._pause(self._reading.store.lease / 4):
            for hold in list(self._holds.values()):
                try:
                    await hold.keep()
                except (LeaseLost, StoreError) as failure:  # its next commit meets it as well
                    log.warning("%s", failure)

    def failing(self, failures: int, of: int, last: Exception | None) -> None:
        """Counts messages that failed in a row.

        :raises TooManyFailures: they are too many
        """
        self._failing = self._failing + failures if failures == of else failures
        if last is not None and self._failing >= self._how.error_limit:
            raise TooManyFailures(
                f"acemq: query {self._query.id!r} failed on {self._failing} messages in a row, the "
                f"last with {type(last).__name__}: {last}. They are dead letters of log "
                f"{self._reading.log.name!r}; mend the query, and replay them"
            ) from last


class _Turn:
    """One hold of one stream, worked on until it ends."""

    def __init__(self, querying: Querying, hold: Held) -> None:
        self._querying = querying
        self._hold = hold
        self._reading = querying._reading
        self._job = querying._job
        self._query = querying._query
        self._plan = querying._plan
        self._cycle = Cycle(self._job, self._query, self._plan, self._reading.decoding)
        self._progress = Progress()
        self._flush_at = 0.0
        self._forget_at = self._reading.now() + _FORGET_EVERY

    async def run(self) -> None:
        """Cycles until the query is stopped, or the hold or its attachment ends."""
        store = self._reading.store
        if self._plan is not None:
            marks = await store.watermarks(self._query, self._hold.stream)
            self._progress = Progress.of(marks)
        if self._hold.unfinished > self._hold.done.upto:
            await self._one_by_one()
        records: list[LogRecord] = []
        while not self._querying.over:
            if not records:
                until = self._reading.now() + self._querying._how.wait
                records = await self._hold.take(self._querying._how.batch, until)
                if not records:
                    await self._quiet()
                    continue
                await self._hold.settle(records)
            records = await self._work(records)
        if records or self._hold.owes:
            await self._hold.settle()

    async def _one_by_one(self) -> None:
        """Works on what a former runner had begun, each attempt counted before it is made."""
        hold, end = self._hold, self._hold.unfinished
        attempt = hold.position.attempts + 1
        while not self._querying.over and hold.done.upto < end:
            records = await hold.take(1, self._reading.now() + self._querying._how.wait)
            if not records and hold.stands.caught_up:
                return
            if not records:
                continue
            dead = killed_readers(attempt, self._reading.settings.retry_limit)
            if dead is not None:
                hold.finish(records[0])
                letter = self._letter(records[0], dead.reason, attempt - 1)
                await self._commit(Step(0, begun=end, records=(letter,)))
            else:
                await hold.commit(Step(0, begun=end, attempts=attempt))
                while await self._work(records, end) and not self._querying.over:
                    pass  # its gate is shut
            attempt = 1

    # ------------------------------------------------------------ one cycle

    async def _work(self, records: Sequence[LogRecord], end: int = 0) -> list[LogRecord]:
        """Works on messages and commits; what comes next, or those that wait for their gate."""
        fresh = await self._unseen(records)
        batch = await self._cycle.batch(records, fresh, self._reading.work.clock.now())
        done, waiting = records[: batch.count], list(records[batch.count :])
        if not done:
            await self._querying._pause(_GATE)
            return waiting
        step, more = await self._step(batch, done)
        self._hold.finish(done[-1])
        upcoming = waiting
        if not waiting and not end and not self._querying.over:
            upcoming = await self._hold.take(self._querying._how.batch, self._reading.now())
        begun = upcoming[-1].offset + 1 if upcoming and not end else end
        await self._commit(replace(step, begun=begun))
        await self._close_more(more)
        last = batch.failed[-1][1] if batch.failed else None
        self._querying.failing(len(batch.failed), len(done), last)
        self._querying.tally.events += len(done)
        return upcoming

    async def _unseen(self, records: Sequence[LogRecord]) -> set[str]:
        ids = [record.window.id for record in records if record.window is not None]
        return await self._reading.store.unseen(self._reading.group, ids) if ids else set()

    async def _step(self, batch: Batch, done: Sequence[LogRecord]) -> tuple[Step, bool]:
        """What a batch writes, and whether more windows are ripe than one commit closes."""
        if self._plan is None:
            return await self._written(batch.outputs, Closed(), batch, []), False
        keys = list({(event.lane, event.key) for event in batch.events})
        store, stream = self._reading.store, self._hold.stream
        open = await store.windows(self._query, stream, keys) if keys else []
        folded = fold_events(batch.events, open, self._plan, self._progress)
        batch.failed += failures_of(folded.failed, done)
        ripe, more = await self._ripe(folded.progress)
        shut = closed(ripe, folded, self._plan)
        self._querying.tally.add(folded.counts)
        self._progress = folded.progress
        late = self._cycle.late(folded.side, stream)
        return await self._written(self._cycle.results(shut.results), shut, batch, late), more

    async def _ripe(self, progress: Progress) -> tuple[list[WindowRow], bool]:
        assert self._plan is not None
        wanted = due(progress, self._plan.timing)
        lanes = {lane: upto for lane, upto in wanted if lane is not None}
        looks: list[float | dict[str, float]] = [upto for lane, upto in wanted if lane is None]
        looks += [lanes] if lanes else []
        found: list[WindowRow] = []
        more = False
        for upto in looks:
            some = await self._reading.store.ripe(self._query, self._hold.stream, upto, _RIPE)
            found += some
            more = more or len(some) >= _RIPE
        return found, more

    async def _written(
        self, outputs: Sequence[Output], shut: Closed, batch: Batch, late: Sequence[Output]
    ) -> Step:
        """Everything that a commit writes, besides the position."""
        now = self._reading.work.clock.now()
        records = records_of(self._job.sink, outputs, now)
        records += records_of(self._job.late, late, now)
        records += [self._letter(record, _reason(why), 1) for record, why in batch.failed]
        if self._querying._each is not None:
            for output in outputs:
                await self._querying._each(output)
        self._querying.tally.results += len(outputs)
        self._querying.tally.dead_letters += len(batch.failed)
        return Step(
            0,
            records=records,
            seen=batch.seen,
            query=None if self._plan is None else self._query,
            windows=shut.rows,
            closed=shut.gone,
            watermarks=self._progress.watermarks(),
            work=self._user_writes(outputs),
        )

    def _user_writes(self, outputs: Sequence[Output]) -> Callable[[Any], None] | None:
        writes = self._job.writes
        if writes is None or not outputs:
            return None
        return lambda connection: writes(connection, list(outputs))

    async def _commit(self, step: Step) -> None:
        await self._hold.commit(step)
        self._querying.trouble = ""
        if step.records:
            self._querying._wake()

    async def _close_more(self, more: bool) -> None:
        """Closes the windows that were too many for one commit."""
        while more and self._plan is not None:
            ripe, more = await self._ripe(self._progress)
            shut = closed(ripe, Folded.nothing(self._progress), self._plan)
            outputs = self._cycle.results(shut.results)
            step = await self._written(outputs, shut, Batch(), [])
            await self._commit(replace(step, begun=self._hold.begun))
        self._progress = self._progress.committed()

    # ------------------------------------------------------------ nothing comes

    async def _quiet(self) -> None:
        """Commits what was passed over, and closes windows whose time is up."""
        if self._hold.owes:
            await self._hold.settle()
        now = self._reading.now()
        window = self._job.window
        if window is None or now < self._flush_at or not self._hold.stands.caught_up:
            return
        self._flush_at = now + window.idle_flush
        await self._flush()
        if now >= self._forget_at:
            self._forget_at = now + _FORGET_EVERY
            await self._forget()

    async def _flush(self) -> None:
        assert self._plan is not None
        stream = self._hold.stream
        clock = self._reading.work.clock.now()
        progress = advanced(self._progress, self._plan.timing, clock, self._cycle.read)
        ripe, more = await self._ripe(progress)
        if not ripe:
            return
        # a message that is there and was not read yet may belong into one of them
        if (await self._reading.log.ends(stream)).tail >= self._hold.stands.upto:
            return
        self._progress = progress
        shut = closed(ripe, Folded.nothing(progress), self._plan)
        outputs = self._cycle.results(shut.results)
        await self._commit(await self._written(outputs, shut, Batch(), []))
        await self._close_more(more)

    async def _forget(self) -> None:
        """Drops watermarks of lanes that have long been quiet."""
        assert self._plan is not None
        before = forgettable(self._progress, self._plan.timing)
        store, stream = self._reading.store, self._hold.stream
        if before == float("-inf"):
            return
        await self._commit(await self._written([], Closed(), Batch(), []))
        if await store.forget_lanes(self._query, stream, before):
            kept = Progress.of(await store.watermarks(self._query, stream))
            self._progress = replace(kept, moved={})

    def _letter(self, record: LogRecord, reason: str, attempt: int) -> OutboxRecord:
        reading = self._reading
        log.error("acemq: %s@%d is a dead letter: %s", record.stream, record.offset, reason)
        return dead_letter(reading.log.name, reading.group, record, reason, attempt)


def _plan_of(job: Job, query: Query) -> WindowPlan | None:
    if job.window is None or job.aggregation is None:
        return None
    return WindowPlan(query, job.window.kind, job.window.timing, job.aggregation)


def _reason(failure: Exception) -> str:
    verdict = verdict_of(failure, 1, limit=0, delay=0)
    if isinstance(failure, MessageError) and isinstance(verdict, Dead):
        return verdict.reason
    return f"the query could not work on it: {type(failure).__name__}: {failure}"
