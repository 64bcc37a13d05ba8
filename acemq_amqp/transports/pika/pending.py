"""A publish whose outcome is awaited, usually by nobody until it is there.

Most outcomes come in swarms and before anyone asks for them, so a lock to wait at is
made only by a caller that comes first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from acemq_amqp.core.ports import Deadline, Outcome
from acemq_amqp.transports.pika.reply import remaining
from acemq_amqp.transports.wire.publishing import Entry

if TYPE_CHECKING:
    from acemq_amqp.transports.pika.lane import Lane


_SHOWING = threading.Lock()


class PendingPublish:
    """The blocking side of one publish."""

    __slots__ = ("_lane", "_on_outcome", "_outcome", "_waiters", "entry")

    def __init__(self, lane: Lane, on_outcome: Callable[[Outcome], None] | None) -> None:
        self._lane = lane
        self._on_outcome = on_outcome
        self._outcome: Outcome | None = None
        self._waiters: tuple[threading.Lock, ...] = ()
        self.entry: Entry

    async def outcome(self, deadline: Deadline) -> Outcome:
        """Waits for the outcome, as ports.Pending promises; never suspends."""
        if self._outcome is None:
            self._wait(deadline)
        assert self._outcome is not None
        return self._outcome

    def settled(self, outcome: Outcome) -> None:
        """Called once, by the ledger."""
        self._outcome = outcome
        for waiter in self._waiters:
            waiter.release()
        if self._on_outcome is not None:
            self._on_outcome(outcome)

    def _wait(self, deadline: Deadline) -> None:
        self._lane.refuse_own_thread()
        lock = threading.Lock()
        lock.acquire()
        with _SHOWING:
            self._waiters += (lock,)
        # The outcome is looked at after the lock is shown, and set before locks are looked
        # at: one of the two sees the other.
        if self._outcome is None and not lock.acquire(timeout=remaining(deadline)):
            self._lane.withdraw(self)
            lock.acquire()
