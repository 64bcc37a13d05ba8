"""An outbox in memory: for tests, and where losing it with the process does no harm."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from acemq_amqp.durations import Duration, seconds
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.patterns.outbox import (
    Claimed,
    OutboxRecord,
    OutboxRow,
    OutboxStatus,
    pause_after,
)
from acemq_amqp.patterns.waiting import Done

#: Leases that are kept without a look at what they are of.
_LEASES: Final = 1000


@dataclass(slots=True)
class _Entry:
    record: OutboxRecord
    created: float
    attempts: int = 0
    due: float = 0.0
    error: str = ""
    #: when it was refused last, by the number of refusals before
    refusal: int = 0
    aside: bool = False


@dataclass(slots=True)
class _Lease:
    relay: str
    until: float


class InMemoryOutboxStore:
    """Records that live as long as this process, with the order and the leases of a real outbox.

    It knows no transactions: what is added is there at once.

    :param max_attempts: refusals after which a record is set aside
    :param on_set_aside: whether such a record holds later ones of its key back, or they skip it
    :param lease: of a relay on what it claims
    :param clock: seconds that never step back
    """

    def __init__(
        self,
        *,
        max_attempts: int = 10,
        on_set_aside: Literal["hold", "skip"] = "hold",
        lease: Duration = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_attempts = max_attempts
        self._hold = on_set_aside == "hold"
        self._lease = seconds(lease, "lease")
        self._clock = clock
        self._guard = threading.Lock()
        self._numbers = itertools.count(1)
        self._refusals = itertools.count(1)
        self._entries: dict[int, _Entry] = {}
        self._ids: dict[str, int] = {}
        #: by ordering key, or by number where there is none
        self._leases: dict[str | int, _Lease] = {}

    def __repr__(self) -> str:
        return f"InMemoryOutboxStore({len(self._entries)} records)"

    @property
    def lease(self) -> float:
        """Seconds of a relay's lease."""
        return self._lease

    def add(self, record: OutboxRecord, *, connection: Any = None) -> Awaitable[None]:
        """Keeps a record, to be sent at once. An id that is there already is one record.

        :param connection: refused, since what is kept here is not part of any transaction
        """
        return self.add_many((record,), connection=connection)

    def add_many(
        self, records: Iterable[OutboxRecord], *, connection: Any = None
    ) -> Awaitable[None]:
        """Keeps records, in their order."""
        if connection is not None:
            raise ConfigurationError(
                "acemq: an outbox in memory cannot be part of a transaction: use SqlOutboxStore of "
                "acemq_stores, or leave connection= out"
            )
        with self._guard:
            for record in records:
                if record.id not in self._ids:
                    number = self._ids[record.id] = next(self._numbers)
                    self._entries[number] = _Entry(record, self._clock())
        return Done(None)

    # ------------------------------------------------------------ relaying

    async def claim(self, relay: str, most: int) -> Claimed:
        """Leases records that are due to a relay, oldest first: so many with, and without a key."""
        now = self._clock()
        with self._guard:
            self._forget_keys_sent()
            rows: dict[bool, list[OutboxRow]] = {True: [], False: []}
            held: set[str] = set()
            for number, entry in self._entries.items():
                key = entry.record.ordering_key
                if key in held:
                    continue
                if entry.aside or entry.due > now:
                    if key and (self._hold or not entry.aside):
                        held.add(key)
                    continue
                kind = rows[bool(key)]
                if len(kind) < most and self._leased(relay, key or number, now):
                    age = now - entry.created
                    kind.append(OutboxRow(number, entry.record, entry.attempts, age))
            return Claimed([*rows[True], *rows[False]], self._lease)

    async def renew(self, relay: str, rows: Sequence[OutboxRow]) -> bool:
        """Begins the lease on rows anew; False where it has ended."""
        now = self._clock()
        with self._guard:
            mine = [self._mine(relay, row) for row in rows]
            for row in rows:
                if self._mine(relay, row):
                    self._leases[_place(row)].until = now + self._lease
            return all(mine)

    async def mark_published(self, relay: str, rows: Sequence[OutboxRow]) -> int:
        """Forgets rows that the broker has confirmed; returns how many were still the relay's."""
        with self._guard:
            mine = [row for row in rows if self._mine(relay, row) and row.seq in self._entries]
            for row in mine:
                self._remove(row)
            return len(mine)

    async def record_failure(self, relay: str, row: OutboxRow, error: str) -> bool:
        """Counts an attempt; True where the row is set aside now. Due again after 1, 2 ... 60 s."""
        with self._guard:
            entry = self._entries.get(row.seq)
            if entry is None or not self._mine(relay, row):
                return False
            entry.due = self._clock() + pause_after(entry.attempts)
            entry.attempts += 1
            entry.error = error
            entry.refusal = next(self._refusals)
            entry.aside = entry.attempts >= self._max_attempts
            return entry.aside

    async def leave(self, relay: str, rows: Sequence[OutboxRow]) -> None:
        """Gives back what a relay holds, for others to take at once."""
        with self._guard:
            self._leases = {
                place: lease for place, lease in self._leases.items() if lease.relay != relay
            }

    # ------------------------------------------------------------ looking after

    async def status(self) -> OutboxStatus:
        """How many records wait, and how long the oldest has."""
        with self._guard:
            waiting = [entry for entry in self._entries.values() if not entry.aside]
            aside = len(self._entries) - len(waiting)
            lag = max((self._clock() - entry.created for entry in waiting), default=0.0)
            failing = [entry for entry in waiting if entry.attempts]
            last = max(failing, key=lambda entry: entry.refusal, default=None)
            error = "" if last is None else last.error
            return OutboxStatus(len(waiting), aside, lag, len(failing), error)

    async def set_aside(self, most: int = 100) -> list[tuple[OutboxRow, str]]:
        """Records that were refused too often, oldest first, each with its last error."""
        with self._guard:
            found = [
                (OutboxRow(number, entry.record, entry.attempts), entry.error)
                for number, entry in self._entries.items()
                if entry.aside
            ]
            return found[:most]

    async def release(self, rows: Sequence[OutboxRow]) -> int:
        """Lets records that were set aside be tried again, with no attempt counted."""
        with self._guard:
            found = [self._entries[row.seq] for row in rows if row.seq in self._entries]
            released = [entry for entry in found if entry.aside]
            for entry in released:
                entry.aside, entry.attempts, entry.due, entry.error = False, 0, 0.0, ""
            return len(released)

    async def drop(self, rows: Sequence[OutboxRow]) -> int:
        """Removes records that were set aside: they are never sent."""
        with self._guard:
            dropped = [row for row in rows if (e := self._entries.get(row.seq)) and e.aside]
            for row in dropped:
                self._remove(row)
            return len(dropped)

    async def purge(self) -> int:
        """Nothing is kept that was sent."""
        return 0

    # ------------------------------------------------------------ inside

    def _leased(self, relay: str, place: str | int, now: float) -> bool:
        lease = self._leases.get(place)
        if lease is not None and lease.relay != relay and lease.until > now:
            return False
        self._leases[place] = _Lease(relay, now + self._lease)
        return True

    def _forget_keys_sent(self) -> None:
        """Drops the leases of keys that have no records any more, once they are many."""
        if len(self._leases) > 2 * len(self._entries) + _LEASES:
            keys = {entry.record.ordering_key or seq for seq, entry in self._entries.items()}
            self._leases = {place: self._leases[place] for place in keys & self._leases.keys()}

    def _mine(self, relay: str, row: OutboxRow) -> bool:
        lease = self._leases.get(_place(row))
        return lease is not None and lease.relay == relay

    def _remove(self, row: OutboxRow) -> None:
        del self._entries[row.seq]
        del self._ids[row.record.id]
        if not row.record.ordering_key:
            self._leases.pop(row.seq, None)


def _place(row: OutboxRow) -> str | int:
    return row.record.ordering_key or row.seq
