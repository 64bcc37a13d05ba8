"""The work of a relay, once for both flavours: claim, publish, mark.

A sweep claims what is due and splits it into chains: the rows of one ordering key are a chain, a
row without a key is one alone. Chains are worked off side by side, each row after the confirm of
the one before it, so that no key ever has two rows unconfirmed. Before each write the lease is
looked at, on a clock that does not step. No lock of the database is held meanwhile.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from acemq_amqp.core.observer import Observing
from acemq_amqp.core.ports import Task, Work
from acemq_amqp.envelope import fresh_id
from acemq_amqp.errors import (
    BrokerError,
    ConfigurationError,
    PublishingPaused,
    PublishRefused,
)
from acemq_amqp.patterns.outbox import (
    HintingStore,
    OutboxRecord,
    OutboxRow,
    OutboxStore,
    pause_after,
)
from acemq_amqp.patterns.store_threads import threads_of
from acemq_amqp.patterns.waiting import asked

log = logging.getLogger("acemq_amqp")

Send = Callable[[OutboxRecord], Awaitable[object]]
Chain = Sequence[OutboxRow]

#: A write is begun only while so much of the lease is left.
_MARGIN = 1 / 3
_PURGE_EVERY = 60.0
#: A purge that removed so many left others, and the next sweep goes on with it.
_MANY = 100
_TELL_EVERY = 10.0


def chains_of(rows: Iterable[OutboxRow]) -> deque[Chain]:
    """Rows by ordering key, each chain in order; a row without a key is a chain of its own."""
    keyed: dict[str, list[OutboxRow]] = {}
    alone: list[list[OutboxRow]] = []
    for row in sorted(rows, key=lambda each: each.seq):
        if row.record.ordering_key:
            keyed.setdefault(row.record.ordering_key, []).append(row)
        else:
            alone.append([row])
    # longest first: it is the one that takes longest
    return deque([*sorted(keyed.values(), key=len, reverse=True), *alone])


def counts_as_attempt(failure: Exception) -> bool:
    """Whether a failure is a refusal of that record, and not of the connection's making."""
    if isinstance(failure, PublishRefused) and not isinstance(failure, PublishingPaused):
        # nothing was told of the message itself where it was never handed over
        return bool(failure.code) or failure.stored == "perhaps"
    return not isinstance(failure, BrokerError)


def is_told(attempt: int) -> bool:
    """Whether a record's refusal is logged: the first, and each that doubles their number."""
    return attempt & (attempt - 1) == 0


@dataclass(slots=True)
class _Sweep:
    """What became of the rows of one sweep."""

    chains: deque[Chain]
    published: list[OutboxRow] = field(default_factory=list)
    refused: list[tuple[OutboxRow, Exception]] = field(default_factory=list)
    #: why no further row is begun
    halted: str = ""


class Relaying:
    """A relay's parts, put together.

    :param send: publishes one record, and returns once it is confirmed
    :param interval: seconds between looks while nothing is due
    :param batch: rows of a claim, with a key and without, each
    :param width: chains at once
    """

    def __init__(
        self,
        work: Work,
        send: Send,
        store: OutboxStore,
        observing: Observing,
        *,
        interval: float,
        batch: int,
        width: int,
    ) -> None:
        self._work = work
        self._send = send
        self._store = store
        self._threads = threads_of(store)
        self._observing = observing
        self._interval = interval
        self._batch = batch
        self._width = width
        self._id = fresh_id()
        self._until = 0.0
        self._owed: list[OutboxRow] = []
        self._claimed: Sequence[OutboxRow] = ()
        self._purge_at = 0.0
        self._tell_at = 0.0
        self._turn = work.queue()
        self._turn.put(None)
        self._woken = work.event()
        self._closing = False
        self._hurried = False
        self._running: Task | None = None
        self._trouble = ""
        self._unlisten: Callable[[], None] | None = None

    # ------------------------------------------------------------ coming and going

    def start(self) -> None:
        """Sweeps from now on, until closed."""
        self._refuse_closed()
        if self._running is None:
            self._running = self._work.spawn(self._run(), "acemq-outbox-relay")
            if isinstance(self._store, HintingStore):
                self._unlisten = self._store.listen(self.wake)

    def wake(self) -> None:
        """Looks at once. Any thread."""
        self._woken.set()

    async def close(self, timeout: float) -> bool:
        """Lets what was begun end, marks it, and gives the leases back; False if not in time."""
        deadline = self._work.clock.monotonic() + timeout
        self._closing = True
        if self._unlisten is not None:
            self._unlisten()
        self._woken.set()
        ended = True
        if self._running is not None:
            ended = await self._running.join(deadline)
        if not ended:
            self._hurried = True
            return False
        await self._leave()
        return True

    async def _leave(self) -> None:
        try:
            await self._mark_owed()
            await self._ask("leave", self._id, self._claimed)
        except Exception as failure:
            log.warning("acemq: a relay's leases end by themselves: %s", failure)

    async def _run(self) -> None:
        while not self._closing:
            if not await self._found_some():
                await self._woken.wait(self._work.clock.monotonic() + self._interval)
                self._woken.clear()

    async def _found_some(self) -> bool:
        """Sweeps, and says whether to sweep again at once."""
        try:
            published = await self._in_turn()
        except Exception as failure:
            self._tell(str(failure))
            return False
        return bool(published)

    def _tell(self, trouble: str) -> None:
        """Logs a trouble when it comes, and when it has gone."""
        if trouble and not self._trouble:
            log.warning("acemq: the outbox relay waits: %s", trouble)
        elif self._trouble and not trouble:
            log.warning("acemq: the outbox relay goes on")
        self._trouble = trouble

    # ------------------------------------------------------------ one sweep

    async def sweep(self) -> int:
        """Claims what is due, publishes it, marks it; returns how many records were published.

        Leases are given back where no further sweep follows by itself.

        :raises StoreError: the store failed; what was published and not marked is marked later
        :raises ConfigurationError: it is closed
        """
        self._refuse_closed()
        return await self._in_turn()

    def _refuse_closed(self) -> None:
        if self._closing:
            raise ConfigurationError(
                "acemq: this outbox relay is closed and sends nothing any more: make another one"
            )

    async def _in_turn(self) -> int:
        await self._turn.get()
        try:
            return await self._sweep()
        finally:
            self._turn.put(None)

    async def _sweep(self) -> int:
        await self._mark_owed()
        started = self._work.clock.monotonic()
        claimed = await self._ask("claim", self._id, self._batch)
        self._until = started + claimed.left
        self._claimed = claimed.rows
        sweep = _Sweep(chains_of(claimed.rows))
        if claimed.rows:
            self._owed = sweep.published
            await self._publish_all(sweep, claimed.rows)
            await self._mark_owed()
            for row, failure in sweep.refused:
                await self._note(row, failure)
        self._tell(sweep.halted)
        await self._look_after()
        if self._running is None:
            await self._leave()
        return len(sweep.published)

    async def _publish_all(self, sweep: _Sweep, rows: Sequence[OutboxRow]) -> None:
        workers = [
            self._work.spawn(self._work_off(sweep), "acemq-outbox-publishing")
            for _ in range(min(self._width, len(sweep.chains)))
        ]
        try:
            for worker in workers:
                while not await worker.join(self._work.clock.monotonic() + self._store.lease / 3):
                    await self._renew(rows)
        except BaseException:  # cancelled: the next sweep begins while these are at work
            sweep.halted = "its sweep was broken off"
            raise

    async def _work_off(self, sweep: _Sweep) -> None:
        while sweep.chains and not sweep.halted:
            try:
                chain = sweep.chains.popleft()
            except IndexError:
                return
            for row in chain:
                if sweep.halted or not await self._publish(row, sweep):
                    break

    async def _publish(self, row: OutboxRow, sweep: _Sweep) -> bool:
        if not self._may_write():
            sweep.halted = "its lease has run out"
            return False
        if self._hurried:
            sweep.halted = "it is being closed"
            return False
        try:
            await self._send(row.record)
        except Exception as failure:
            if counts_as_attempt(failure):
                sweep.refused.append((row, failure))
            else:
                sweep.halted = str(failure)
            self._count(row, "refused" if counts_as_attempt(failure) else "failed")
            return False
        sweep.published.append(row)
        self._count(row, "confirmed")
        return True

    def _may_write(self) -> bool:
        return self._work.clock.monotonic() < self._until - self._store.lease * _MARGIN

    # ------------------------------------------------------------ the store's side

    async def _ask(self, name: str, *arguments: Any) -> Any:
        return await asked(self._threads, getattr(self._store, name), *arguments)

    async def _renew(self, rows: Sequence[OutboxRow]) -> None:
        started = self._work.clock.monotonic()
        try:
            if await self._ask("renew", self._id, rows):
                self._until = started + self._store.lease
        except Exception as failure:  # it is tried again before the lease ends, or ends with it
            log.warning("acemq: the outbox relay could not renew its lease: %s", failure)

    async def _mark_owed(self) -> None:
        """Marks what was confirmed and could not be marked; too late, it is sent again."""
        await self._mark(self._owed)
        self._owed = []

    async def _mark(self, rows: Sequence[OutboxRow]) -> None:
        if not rows or self._work.clock.monotonic() >= self._until:
            return
        marked = await self._ask("mark_published", self._id, rows)
        if marked < len(rows):
            log.warning(
                "acemq: %d of %d published outbox records were another relay's by now: they may "
                "be published again, under their ids",
                len(rows) - marked,
                len(rows),
            )

    async def _note(self, row: OutboxRow, failure: Exception) -> None:
        if self._work.clock.monotonic() >= self._until:
            return
        record, attempt = row.record, row.attempts + 1
        if await self._ask("record_failure", self._id, row, str(failure)):
            log.error(
                "acemq: outbox record %s was refused %d times and is set aside: %s",
                record.id,
                attempt,
                failure,
            )
        elif is_told(attempt):
            log.warning(
                "acemq: outbox record %s to exchange %r with key %r was refused (attempt %d), and "
                "is tried again in about %.0f s: %s",
                record.id,
                record.exchange,
                record.routing_key,
                attempt,
                pause_after(row.attempts),
                failure,
            )

    async def _look_after(self) -> None:
        now = self._work.clock.monotonic()
        if now >= self._purge_at:
            self._purge_at = now + _PURGE_EVERY
            if await self._ask("purge") >= _MANY:
                self._purge_at = now
        if self._observing.watched and now >= self._tell_at:
            self._tell_at = now + _TELL_EVERY
            status = await self._ask("status")
            self._observing.gauge("acemq.outbox.waiting", {}, status.waiting)
            self._observing.gauge("acemq.outbox.set.aside", {}, status.set_aside)
            self._observing.gauge("acemq.outbox.oldest", {}, status.lag)

    def _count(self, row: OutboxRow, outcome: str) -> None:
        if self._observing.watched:
            labels = {
                "exchange": row.record.exchange,
                "routing.key": row.record.routing_key,
                "outcome": outcome,
            }
            self._observing.count("acemq.outbox.total", labels)
            self._observing.duration("acemq.outbox.lag", labels, row.age)
