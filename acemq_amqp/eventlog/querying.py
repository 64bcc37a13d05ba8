"""Running a query: each stream of its log is held whole by one runner, and worked on.

The hold's fence guards every commit, so a runner that slept past its lease commits nothing; and so
does the query's generation, so one that was reset elsewhere ends here.
"""

from __future__ import annotations

import logging

from acemq_amqp.errors import StoreError
from acemq_amqp.eventlog.errors import LeaseLost, QueryReset
from acemq_amqp.eventlog.holding import Held, held
from acemq_amqp.eventlog.job import Job
from acemq_amqp.eventlog.query_run import QueryRun
from acemq_amqp.eventlog.running import Running
from acemq_amqp.eventlog.store import Query
from acemq_amqp.eventlog.stream_worker import StreamWorker
from acemq_amqp.eventlog.windows.values import WindowPlan

log = logging.getLogger("acemq_amqp")

#: One that stands by looks so often whether a stream is free; in seconds, or a third of a lease.
_STAND_BY = 1.0


class Querying(Running):
    """A query that runs."""

    def __init__(self, run: QueryRun) -> None:
        super().__init__(run.reading.work)
        self.run = run
        self._plan = _plan_of(run.job, run.query)
        self._holds: dict[str, Held] = {}

    def start(self) -> None:
        """Begins. The query must be registered, and its group placed."""
        for stream in self.run.reading.log.streams:
            self._spawn(self._read(stream), f"acemq-{self.run.query.id}-{stream}")
        self._spawn(self._renewing(), f"acemq-{self.run.query.id}-leases")

    async def pause(self, seconds: float) -> bool:
        """Waits; True where it is to end."""
        return await self._pause(seconds)

    async def _read(self, stream: str) -> None:
        what = f"{stream} for query {self.run.query.id!r}"

        async def attempt() -> float:
            if await self._hold(stream, what):
                return 0.0
            self.well(what)
            return min(_STAND_BY, self.run.reading.store.lease / 3)

        await self._lasting(what, attempt)

    async def _hold(self, stream: str, what: str) -> bool:
        """Works on a stream until that ends; False where another runner does."""
        await self._check_placed(stream)
        await self._check_current()
        hold = await held(self.run.reading, stream, placed=True)
        if hold is None:
            return False
        self._holds[stream] = hold
        try:
            await StreamWorker(self.run, hold, self._plan, self, what).run()
        finally:
            del self._holds[stream]
            await hold.leave()
        return True

    async def _check_placed(self, stream: str) -> None:
        """A position that is gone is not made anew: who deleted it says where it begins.

        :raises QueryReset: it is gone
        """
        if await self.run.reading.store.position(self.run.reading.group, stream) is None:
            raise QueryReset(
                f"acemq: query {self.run.query.id!r} has no position in stream {stream!r} any "
                "more: it was reset elsewhere, or its log was deleted; run it again"
            )

    async def _check_current(self) -> None:
        """
        :raises QueryReset: it was reset elsewhere
        :raises ConfigurationError: and has another shape since
        """
        query = self.run.query
        known = await self.run.reading.store.register(query.id, self.run.job.shape)
        if known.generation != query.generation:
            raise QueryReset(
                f"acemq: query {query.id!r} was reset elsewhere, and ends here; run it again"
            )

    async def _renewing(self) -> None:
        while not await self._pause(self.run.reading.store.lease / 4):
            for hold in list(self._holds.values()):
                try:
                    await hold.keep()
                except (LeaseLost, StoreError) as failure:  # its next commit meets it as well
                    log.warning("%s", failure)


def _plan_of(job: Job, query: Query) -> WindowPlan | None:
    if job.window is None or job.aggregation is None:
        return None
    return WindowPlan(query, job.window.kind, job.window.timing, job.aggregation)
