"""Positions, windows and output of event logs in SQL tables, committed together."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from itertools import count
from typing import Any, Final, TypeVar

from acemq_amqp.durations import Duration, seconds
from acemq_amqp.eventlog.store import (
    Fence,
    LaneLease,
    Position,
    Query,
    Step,
    WindowRow,
)
from acemq_amqp.patterns.outbox import OutboxRecord
from acemq_stores.sql import log_places, log_windows
from acemq_stores.sql import log_statements as sql
from acemq_stores.sql.connecting import Connect, Database
from acemq_stores.sql.log_commit import Committing, WorkFailed
from acemq_stores.sql.log_rows import positions_of, texts, told
from acemq_stores.sql.outbox import SqlOutboxStore
from acemq_stores.sql.schema import Schema
from acemq_stores.sql.session import Session
from acemq_stores.sql.sources import Access
from acemq_stores.sql.tables import LOG

T = TypeVar("T")

_LEAST_LEASE: Final = 1.0
#: seconds that ids of handled windows are remembered
_REMEMBERED: Final = 7 * 86400.0
_PURGE_EVERY: Final = 60.0
_PURGE_BATCH: Final = 1000


class SqlLogStore:
    """What event logs keep, in tables beside the business's own.

    The clock of leases is the database's. A commit's outbox records are in ``outbox``, in the same
    database and transaction.

    :param connect: ``sqlite:///path``, ``postgresql://...``, or a callable that gives a PEP 249
        connection
    :param lease: how long a hold of a stream, or a lane's lease, lasts without being renewed;
        1 s at least
    :param table: the name that all its tables begin with, behind a schema and a dot or not
    :param outbox: one in the same database; made with its defaults if none is given
    :param dialect: for connections of a driver that the stores do not know
    :param create: create and migrate the tables at first use
    :raises ConfigurationError: an address, a name or a number that cannot be
    """

    def __init__(
        self,
        connect: Connect,
        *,
        lease: Duration = 30.0,
        table: str = LOG.table,
        outbox: SqlOutboxStore | None = None,
        dialect: str | None = None,
        create: bool = True,
    ) -> None:
        self._database = Database(connect, table, dialect=dialect)
        self._schema = Schema(self._database, LOG, create=create)
        self._lease = max(_LEAST_LEASE, seconds(lease, "lease"))
        self._own_outbox = outbox is None
        self._outbox = outbox or SqlOutboxStore(connect, dialect=dialect, create=create)
        self._committing = Committing(self._outbox, self._lease)
        self._purge_at = time.monotonic() + _PURGE_EVERY

    def __repr__(self) -> str:
        return f"SqlLogStore(table={self._database.table!r})"

    @property
    def lease(self) -> float:
        """Seconds that a hold, or a lane's lease, lasts without being renewed."""
        return self._lease

    def leasing(self, seconds: float) -> SqlLogStore:
        """The same store, on the same connections, whose holds and leases last so long."""
        view = copy(self)
        view._lease = max(_LEAST_LEASE, seconds)
        view._committing = Committing(self._outbox, view._lease)
        return view

    @property
    def outbox(self) -> SqlOutboxStore:
        """Where output goes: in the same database, for a relay to publish."""
        return self._outbox

    # ------------------------------------------------------------ positions

    async def position(self, group: str, stream: str) -> Position | None:
        """Where a group stands; None where it has not been there."""
        return await self._do(log_places.position, group, stream, access=Access.READ)

    async def positions(self, streams: Sequence[str]) -> list[Position]:
        """Where all groups stand in these streams, ordered by group and stream."""

        def work(session: Session) -> list[Position]:
            return positions_of(session.rows(sql.POSITIONS, given=texts(streams)))

        return await self._do(work, access=Access.READ)

    async def create(self, group: str, stream: str, next: int, anchor: str) -> Position:
        """Puts a group at an offset, unless it stands somewhere: then that is given."""
        # None only where another deletes it at the same moment
        while True:
            position = await self._do(log_places.create, group, stream, next, anchor)
            if position is not None:
                return position

    async def hold(self, group: str, stream: str, holder: str) -> Position | None:
        """Takes a stream whole and raises the epoch; None where it is taken or not there."""
        return await self._do(log_places.hold, group, stream, holder, self._lease)

    async def renew(self, fences: Sequence[Fence], holder: str) -> set[Fence]:
        """Begins holds anew, and returns those that are still this holder's."""
        return await self._do(log_places.renewed, fences, holder, self._lease, access=Access.ONE)

    async def release(self, fence: Fence, holder: str) -> None:
        """Gives a hold back, for others to take at once."""

        def work(session: Session) -> None:
            of = {"group": fence.group, "stream": fence.stream, "epoch": fence.epoch}
            session.change(sql.RELEASE_HOLD, holder=holder, **of)

        await self._do(work, access=Access.ONE)

    async def commit(self, fence: Fence, holder: str, step: Step) -> bool:
        """Writes a step, and begins the hold anew; False, and nothing, where that was passed.

        ``step.work`` is called on the store's thread before anything else is written, and again
        where the database undid the transaction for another's sake: what counts is one call. It
        must not end the transaction. What it raises is raised here.
        """
        stamp = secrets.token_hex(8)
        try:
            done = await self._do(self._committing.step, fence, holder, step, stamp)
        except WorkFailed as failed:
            raise failed.failure from None
        if step.seen:
            await self._purge_now_and_then()
        return done

    # ------------------------------------------------------------ lanes

    async def lease_lanes(
        self, fence: Fence, wanted: Mapping[str, int], token: str
    ) -> list[LaneLease]:
        """Leases lanes that are free and stand where the caller thinks."""
        tries = count()

        def work(session: Session) -> list[LaneLease]:
            again = next(tries) > 0
            return log_places.lease_lanes(session, fence, wanted, token, self._lease, again)

        return await self._do(work)

    async def renew_lanes(self, fence: Fence, lanes: Sequence[str], token: str) -> set[str]:
        """Begins leases anew, and returns the lanes that are still leased under that token."""
        return await self._do(log_places.renew_lanes, fence, lanes, token, self._lease)

    async def settle_lanes(
        self,
        fence: Fence,
        token: str,
        moved: Mapping[str, int],
        freed: Sequence[str],
        *,
        records: Sequence[OutboxRecord] = (),
        seen: Sequence[str] = (),
    ) -> set[str]:
        """Moves and frees leased lanes, and writes output; all of it, or nothing."""
        mine = await self._do(self._committing.lanes, fence, token, moved, freed, records, seen)
        if seen:
            await self._purge_now_and_then()
        return mine

    async def advance(self, fence: Fence, next: int, anchor: str) -> bool:
        """Moves the watermark forward, never back; free lanes' rows that it reaches go."""
        return await self._do(log_places.advance, fence, next, anchor)

    async def seek(
        self, group: str, stream: str, next: int, anchor: str, lane: str | None = None
    ) -> Position | None:
        """Moves a group, or one lane of it, and raises the epoch; leases and attempts end."""
        return await self._do(log_places.seek, group, stream, next, anchor, lane)

    async def delete_group(self, group: str, streams: Sequence[str]) -> int:
        """Forgets a group with its lanes; returns in how many streams it stood."""
        return await self._do(log_places.delete_group, group, streams)

    async def delete_streams(self, streams: Sequence[str]) -> None:
        """Forgets every group's position in these streams, and windows over them."""

        def work(session: Session) -> None:
            log_places.delete_streams(session, streams)
            log_windows.delete_streams(session, streams)

        await self._do(work)

    # ------------------------------------------------------------ windows

    async def register(self, query: str, shape: str, reset: str | None = None) -> Query:
        """Makes a query known, or finds it, or resets it."""
        return await self._do(log_windows.register, query, shape, reset)

    async def windows(
        self, query: Query, stream: str, keys: Sequence[tuple[str, str]]
    ) -> list[WindowRow]:
        """The open windows of these (lane, key) pairs."""
        return await self._do(log_windows.find, query, stream, keys, access=Access.READ)

    async def ripe(
        self, query: Query, stream: str, upto: float | Mapping[str, float], most: int
    ) -> list[WindowRow]:
        """Windows that close by a moment, or of each lane by its own, earliest first."""
        return await self._do(log_windows.ripe, query, stream, upto, most, access=Access.READ)

    async def watermarks(self, query: Query, stream: str) -> dict[str, float]:
        """Event time that the lanes have come to."""
        return await self._do(log_windows.watermarks, query, stream, access=Access.READ)

    async def forget_lanes(self, query: Query, stream: str, before: float) -> int:
        """Drops watermarks below a moment, of lanes that have no open window."""
        return await self._do(log_windows.forget_lanes, query, stream, before, access=Access.ONE)

    async def open_windows(self, query: Query) -> int:
        """How many windows are open."""
        return await self._do(log_windows.count, query, access=Access.READ)

    # ------------------------------------------------------------ output seen before

    async def unseen(self, group: str, ids: Sequence[str]) -> set[str]:
        """Those of these ids that this group has not handled in the last seven days."""

        def work(session: Session) -> set[str]:
            found = session.rows(sql.SEEN, group=group, given=texts(ids), kept=_REMEMBERED)
            return set(ids) - {told(id_) for (id_,) in found}

        return await self._do(work, access=Access.READ)

    async def purge(self, most: int = _PURGE_BATCH) -> int:
        """Removes ids of windows that were handled more than seven days ago; returns how many.

        Readers do it too, about once a minute.

        :param most: ids to remove at most
        """
        return await self._do(
            lambda session: session.change(sql.PURGE_SEEN, kept=_REMEMBERED, most=most),
            access=Access.ONE,
        )

    def close(self) -> None:
        """Lets go of connections and threads. What is asked of it later is refused."""
        self._database.close()
        if self._own_outbox:
            self._outbox.close()

    # ------------------------------------------------------------ inside

    async def _do(self, work: Callable[..., T], *values: Any, access: Access = Access.SEVERAL) -> T:
        return await self._database.call(self._done, work, values, access)

    def _done(self, work: Callable[..., T], values: tuple[Any, ...], access: Access) -> T:
        if not self._schema.ready:
            # no table is created while a transaction of ours keeps others out
            self._outbox.add_many(())
            self._schema.ensure()
        return self._database.run(lambda session: work(session, *values), access)

    async def _purge_now_and_then(self) -> None:
        if time.monotonic() >= self._purge_at:
            self._purge_at = time.monotonic() + _PURGE_EVERY
            if await self.purge() == _PURGE_BATCH:  # the next read goes on with it
                self._purge_at = 0.0
