"""One publish between its hand-over and its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from acemq_amqp.core.ports import Deadline, Outcome
from acemq_amqp.transports.aiopika.deadlines import Deadlines
from acemq_amqp.transports.wire.publishing import Entry, PublishLedger


class PendingPublish:
    """Waits for an outcome; one task at a time. Nothing is lost where nobody waits."""

    __slots__ = ("_deadlines", "_ledger", "_loop", "_on_outcome", "_outcome", "_waiter", "entry")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ledger: PublishLedger,
        deadlines: Deadlines,
        on_outcome: Callable[[Outcome], None] | None,
    ) -> None:
        self._loop = loop
        self._ledger = ledger
        self._deadlines = deadlines
        self._on_outcome = on_outcome
        self._outcome: Outcome | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.entry: Entry

    def settle(self, outcome: Outcome) -> None:
        """Takes the outcome from the ledger, once."""
        self._outcome = outcome
        if self._on_outcome is not None:
            self._on_outcome(outcome)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def outcome(self, deadline: Deadline) -> Outcome:
        """Waits for the outcome; what is not written at the deadline never will be."""
        if self._outcome is None:
            await self._wait(deadline)
        assert self._outcome is not None
        return self._outcome

    def expire(self) -> None:
        """The deadline has come: the ledger settles it as what it is."""
        self._ledger.withdraw(self.entry, "no confirm came in the time allowed")

    async def _wait(self, deadline: Deadline) -> None:
        waiter = self._waiter = self._loop.create_future()
        if deadline is None:
            await waiter
            return
        due = self._deadlines.add(deadline, self)
        try:
            await waiter
        finally:
            due.discard(self)
