"""Outbox records in a SQL table.

Records are written in the caller's transaction and read by relays, of which each leases buckets of
ordering keys and single rows without a key. State is kept with every row and there is no cursor, so
a row that was committed late is found as any other.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeVar

from acemq_amqp.durations import Duration, seconds
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.patterns.claim_check import CLAIM_CHECK_FRAME, claim_key_of
from acemq_amqp.patterns.outbox import (
    Claimed,
    OutboxRecord,
    OutboxRow,
    OutboxStatus,
    pause_after,
)
from acemq_amqp.patterns.waiting import Done
from acemq_stores.sql import statements as sql
from acemq_stores.sql.adding import adding, checked_records
from acemq_stores.sql.callers import Caller
from acemq_stores.sql.connecting import Connect, Database
from acemq_stores.sql.dialects import Dialect
from acemq_stores.sql.failures import mapped
from acemq_stores.sql.leases import Leases
from acemq_stores.sql.listening import Listener, channel_of, listening_address
from acemq_stores.sql.rendering import Statement
from acemq_stores.sql.schema import Schema
from acemq_stores.sql.session import Row, Session, Steps
from acemq_stores.sql.sources import Access
from acemq_stores.sql.tables import OUTBOX

T = TypeVar("T")

_LEAST_LEASE: Final = 1.0
_PURGE_BATCH: Final = 1000
_SET_ASIDE: Final = 2


class SqlOutboxStore:
    """An outbox in a table beside the business's own.

    :param connect: for relays: ``sqlite:///path``, ``postgresql://...``, or a callable that gives a
        PEP 249 connection. Callers of ``add`` bring their own connection
    :param table: its name, behind a schema and a dot or not
    :param max_attempts: refusals after which a record is set aside
    :param on_set_aside: whether a record that was set aside holds later ones of its key back until
        it is released or dropped, or they skip it
    :param keep_sent: how long a sent record is kept; 0 deletes it at once
    :param lease: of a relay on what it claims; at least three times the relay's connection's
        ``timeout``
    :param notify: whether commits tell the relays that wait, so that these need not poll for
        them: a record is then published within milliseconds, and commits take a little longer, one
        after the other. PostgreSQL alone
    :param listen: where relays listen for that: PostgreSQL's own address, past any pooler;
        ``connect`` by default
    :param lock_key: whether ``add`` locks the ordering key, so that its order is that of commits
    :param dialect: for connections of a driver that the stores do not know
    :param create: create and migrate the table at first use
    :raises ConfigurationError: an address, a name or a number that cannot be
    """

    def __init__(
        self,
        connect: Connect,
        *,
        table: str = OUTBOX.table,
        max_attempts: int = 10,
        on_set_aside: Literal["hold", "skip"] = "hold",
        keep_sent: Duration = 3600.0,
        lease: Duration = 30.0,
        lock_key: bool = True,
        notify: bool = False,
        listen: str | None = None,
        dialect: str | None = None,
        create: bool = True,
    ) -> None:
        self._database = Database(connect, table, dialect=dialect)
        self._schema = Schema(self._database, OUTBOX, create=create)
        self._max_attempts = _checked_attempts(max_attempts)
        self._hold = int(_checked_choice(on_set_aside) == "hold")
        self._keep = seconds(keep_sent, "keep_sent")
        self._lease = max(_LEAST_LEASE, seconds(lease, "lease"))
        self._leases = Leases(self._lease)
        self._lock_key = lock_key
        self._listen_at = listening_address(notify, connect, listen)
        self._channel = channel_of(self._database.table) if notify else ""
        self._dialect = dialect

    def __repr__(self) -> str:
        return f"SqlOutboxStore(table={self._database.table!r})"

    @property
    def lease(self) -> float:
        """Seconds of a relay's lease."""
        return self._lease

    # ------------------------------------------------------------ writing

    def add(self, record: OutboxRecord, *, connection: Any = None) -> Awaitable[None]:
        """Writes a record in the caller's transaction, on the caller's connection and thread.

        It is sent if that transaction commits. Nothing of the caller's is committed, rolled back or
        closed. An id that is there already is one record. On a connection whose methods are
        coroutines this must be awaited; on any other it is done when it returns.

        :param connection: sqlite3, psycopg, psycopg2, Django's, any PEP 249 one, SQLAlchemy's
            Connection or Session, or an asynchronous one of psycopg, aiosqlite or SQLAlchemy;
            without one the record is committed by itself, on a connection of the store's own; on
            SQLite that waits for every open write transaction, the caller's own included
        :raises ConfigurationError: the connection is closed, or would commit the record at once
        :raises StoreError: the database refused, or this store is closed
        """
        return self.add_many((record,), connection=connection)

    def add_many(
        self, records: Iterable[OutboxRecord], *, connection: Any = None
    ) -> Awaitable[None]:
        """Writes records in their order; otherwise as :meth:`add`."""
        self._database.refuse_closed()
        written = checked_records(records)
        if connection is None:
            return self._database.done(self._added, written)
        caller = Caller(connection, self._database.table, self._dialect)
        if caller.awaited:
            return self._adding_awaited(caller, written)
        self._schema.ensure(may_create=not caller.keeps_others_out)
        try:
            caller.run(self._steps(written, caller))
        except Exception as failure:
            self._tell(failure, caller)
        return Done(None)

    async def _adding_awaited(self, caller: Caller, records: list[OutboxRecord]) -> None:
        may_create = not caller.keeps_others_out
        await self._database.call(partial(self._schema.ensure, may_create=may_create))
        try:
            await caller.awaiting(self._steps(records, caller))
        except Exception as failure:
            self._tell(failure, caller)

    def _steps(self, records: list[OutboxRecord], caller: Caller) -> Steps[None]:
        return self._adding(records, caller.driver.dialect)

    def _adding(self, records: list[OutboxRecord], dialect: Dialect) -> Steps[None]:
        return adding(
            records,
            self._database.table,
            dialect,
            lock_keys=self._lock_key,
            channel=self._channel,
        )

    def _tell(self, failure: Exception, caller: Caller) -> None:
        told = mapped(failure, self._database.table, caller.driver.dialect.name)
        if told is failure:
            raise failure
        raise told from failure

    # ------------------------------------------------------------ relaying

    def listen(self, hint: Callable[[], None]) -> Callable[[], None] | None:
        """Calls ``hint`` soon after a commit, in a thread of its own, until the result is called.

        None where commits do not tell (``notify=False``). Hints can be lost: it is for the relay
        to look now and then all the same.
        """
        if self._listen_at is None:
            return None
        return Listener(self._listen_at, self._channel, hint).stop

    async def claim(self, relay: str, most: int) -> Claimed:
        """Leases records that are due to a relay, oldest first: so many with, and without a key."""
        return await self._database.call(self._claimed, relay, most)

    async def renew(self, relay: str, rows: Sequence[OutboxRow]) -> bool:
        """Begins a relay's lease anew; False where it has ended."""
        return await self._do(lambda session: self._leases.renewed(session, relay, _given(rows)))

    async def mark_published(self, relay: str, rows: Sequence[OutboxRow]) -> int:
        """Notes that the broker has confirmed rows; returns how many were still the relay's."""
        statement = sql.MARK_SENT if self._keep else sql.DELETE_SENT
        return await self._change(statement, token=relay, given=_given(rows))

    async def record_failure(self, relay: str, row: OutboxRow, error: str) -> bool:
        """Counts an attempt; True where the row is set aside now.

        It is due again after 1, 2, 4 ... 60 s, and holds its key back until then.
        """
        values = {
            "token": relay,
            "seq": row.seq,
            "error": error.replace("\0", "")[:1000],
            "most": self._max_attempts,
            "pause": pause_after(row.attempts),
        }
        state = await self._do(lambda session: session.row(sql.NOTE_FAILURE, **values))
        return state is not None and state[0] == _SET_ASIDE

    async def leave(self, relay: str, rows: Sequence[OutboxRow]) -> None:
        """Gives back what a relay holds, for others to take at once."""
        await self._do(lambda session: self._leases.left(session, relay, _given(rows)))

    # ------------------------------------------------------------ looking after

    async def status(self) -> OutboxStatus:
        """How many records wait, and how long the oldest has."""
        waiting, aside, lag, failing, error = await self._do(
            lambda session: session.rows(sql.STATUS)[0], Access.READ
        )
        lag = max(0.0, float(lag or 0.0))
        return OutboxStatus(int(waiting), int(aside), lag, int(failing), error or "")

    async def set_aside(self, most: int = 100) -> list[tuple[OutboxRow, str]]:
        """Records that were refused too often, oldest first, each with its last error."""
        rows = await self._do(lambda session: session.rows(sql.SET_ASIDE, most=most), Access.READ)
        return [(_row(found), str(found[-1])) for found in rows]

    async def release(self, rows: Sequence[OutboxRow]) -> int:
        """Lets records that were set aside be tried again, with no attempt counted."""
        return await self._change(sql.RELEASE, given=_given(rows))

    async def drop(self, rows: Sequence[OutboxRow]) -> int:
        """Removes records that were set aside: they are never sent."""
        return await self._change(sql.DROP, given=_given(rows))

    async def purge(self, most: int = _PURGE_BATCH) -> int:
        """Removes records that were sent and kept for ``keep_sent``; returns how many.

        Relays do it too, about once a minute, and sweep by sweep while there is much to remove.

        :param most: records to remove at most
        """
        return await self._change(sql.PURGE_SENT, keep=self._keep, most=most)

    async def claims(self) -> set[str]:
        """Keys of the payloads that records name: those sent, waiting and set aside."""
        return await self._database.call(self._claims)

    def close(self) -> None:
        """Lets go of connections and threads. What is asked of it later is refused."""
        self._database.close()

    # ------------------------------------------------------------ inside

    async def _change(self, statement: Statement, **values: Any) -> int:
        return await self._do(lambda session: session.change(statement, **values), Access.ONE)

    async def _do(self, work: Callable[[Session], T], access: Access = Access.EACH) -> T:
        return await self._database.call(self._done, work, access)

    def _done(self, work: Callable[[Session], T], access: Access) -> T:
        self._schema.ensure()
        return self._database.run(work, access)

    def _added(self, records: list[OutboxRecord]) -> None:
        def work(session: Session) -> None:
            steps = self._adding(records, session.rendering.dialect)
            session.carry_out(steps)

        self._done(work, Access.SEVERAL)

    def _claims(self) -> set[str]:
        keys: set[str] = set()
        after = -1
        while page := self._claims_after(after):
            keys.update(filter(None, (claim_key_of(bytes(body)) for _, body in page)))
            after = int(page[-1][0])
        return keys

    def _claims_after(self, seq: int) -> list[Row]:
        values = {"after": seq, "frame": CLAIM_CHECK_FRAME, "most": _PURGE_BATCH}
        return self._done(lambda session: session.rows(sql.CLAIMED_BODIES, **values), Access.READ)

    def _claimed(self, relay: str, most: int) -> Claimed:
        started = time.monotonic()
        # A process that is stopped in here must not keep others from what it holds.
        rows, left = self._done(
            lambda session: self._claim_in(session, relay, most, started), Access.EACH
        )
        return Claimed(sorted(map(_row, rows), key=lambda row: row.seq), left)

    def _claim_in(
        self, session: Session, relay: str, most: int, started: float
    ) -> tuple[list[Row], float]:
        left = self._leases.taken(session, relay, started)
        found = session.rows(sql.KEYED_ROWS, token=relay, most=most, hold=self._hold)
        found += session.rows(sql.CLAIM_KEYLESS, token=relay, most=most, lease=self._lease)
        return found, left


def _row(found: Row) -> OutboxRow:
    seq, id_, exchange, routing_key, ordering_key, content_type, headers, body, attempts, age = (
        found[:10]
    )
    record = OutboxRecord(
        id_, exchange, routing_key, bytes(body), content_type, bytes(headers), ordering_key
    )
    return OutboxRow(int(seq), record, int(attempts), float(age))


def _given(rows: Sequence[OutboxRow]) -> str:
    return json.dumps([row.seq for row in rows])


def _checked_attempts(most: int) -> int:
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ConfigurationError(f"acemq: max_attempts of an outbox is {most!r}: give 1 or more")
    return most


def _checked_choice(choice: str) -> str:
    if choice not in ("hold", "skip"):
        raise ConfigurationError(f"acemq: on_set_aside is 'hold' or 'skip', not {choice!r}")
    return choice
