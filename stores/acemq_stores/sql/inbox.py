"""Transactions in which a message is claimed, for ``acemq_amqp.patterns.transactional``.

The claim is a row that is written first, marked as handled last, and committed with all else. Where
a handler ends the transaction in between, the row counts for nothing. On PostgreSQL a lock that
ends with the transaction keeps a second delivery of the message out, without letting it wait; on
SQLite the one write lock does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from acemq_amqp.durations import Duration, milliseconds, seconds
from acemq_amqp.patterns.claim import Claim
from acemq_stores.sql import inbox_statements as inbox_sql
from acemq_stores.sql import statements as sql
from acemq_stores.sql.adding import lock_of
from acemq_stores.sql.awaited import held, in_transaction, lent
from acemq_stores.sql.beside import Beside, at_address, beside, opener
from acemq_stores.sql.callers import Caller
from acemq_stores.sql.connecting import Connect, Database
from acemq_stores.sql.dialects import POSTGRESQL, Dialect
from acemq_stores.sql.failures import mapped
from acemq_stores.sql.idempotency import stored_key
from acemq_stores.sql.inbox_endings import checked_mark, guarded, marking
from acemq_stores.sql.schema import Schema
from acemq_stores.sql.session import Step, Steps
from acemq_stores.sql.sources import PATIENCE, Access
from acemq_stores.sql.sqlalchemy_objects import is_sqlalchemy
from acemq_stores.sql.tables import IDEMPOTENCY

log = logging.getLogger("acemq_stores")

Claimed = tuple[Claim, bytes | None]
#: handlers at once, each with a connection
_WIDTH: Final = 32
_PURGE_EVERY: Final = 60.0
_PURGE_BATCH: Final = 1000


@dataclass(slots=True)
class Begun:
    """A transaction for a message, as far as it has come.

    :ivar result: what was kept with a duplicate; of a message that is claimed, what is to be kept
    """

    claim: Claim
    connection: Any
    result: bytes | None = None


def claiming(key: str, table: str, dialect: Dialect, lease: int) -> Steps[Claimed]:
    """The steps that claim a message in a transaction, without waiting for another one's end."""
    if dialect is POSTGRESQL:
        yield Step(inbox_sql.LIMIT_IDLE, {"limit": str(lease)}, wants=True)
        rows = yield Step(inbox_sql.TRY_LOCK, {"lock": lock_of("inbox", table, key)}, wants=True)
        if not rows[0][0]:
            return Claim.IN_PROGRESS, None
    rows = yield Step(inbox_sql.OPEN_CLAIM, {"key": key}, wants=True)
    if not rows:  # handled, or claimed by ``idempotent`` in the same table, and perhaps never so
        rows = yield Step(inbox_sql.STATE, {"key": key}, wants=True)
        if not rows or not rows[0][0]:
            return Claim.IN_PROGRESS, None
        kept = rows[0][1]
        return Claim.DUPLICATE, None if kept is None else bytes(kept)
    if dialect is not POSTGRESQL:
        yield Step(inbox_sql.OPEN_MARK, {})
    return Claim.CLAIMED, None


def closing(key: str, dialect: Dialect, retention: float, result: bytes | None) -> Steps[bool]:
    """The steps that mark a claimed message as handled; False in another transaction than that."""
    if dialect is not POSTGRESQL:
        yield Step(inbox_sql.CLOSE_MARK, {})
    values = {"key": key, "retention": retention, "result": result}
    rows = yield Step(inbox_sql.CLOSE_CLAIM, values, wants=True)
    return bool(rows)


class _Inbox:
    """What both inboxes have in common."""

    def __init__(
        self,
        connect: Connect,
        *,
        lease: Duration,
        retention: Duration,
        max_result: int,
        table: str,
        dialect: str | None,
        create: bool,
    ) -> None:
        self._lease = milliseconds(lease, "lease")
        self._retention = seconds(retention, "retention")
        self._max_result = max_result
        self._database = Database(connect, table, dialect=dialect, width=_WIDTH, kept=0)
        self._schema = Schema(self._database, IDEMPOTENCY, create=create)
        self._dialect = dialect
        self._purge_at = 0.0
        self._ready = False

    def _steps(self, caller: Caller, key: str) -> Steps[Claimed]:
        return claiming(
            stored_key(key),
            self._database.table,
            caller.driver.dialect,
            self._lease,
        )

    def _closing(self, caller: Caller, key: str, result: bytes | None) -> Steps[bool]:
        if result is not None and len(result) > self._max_result:
            log.warning(
                "acemq: the result of %r is not kept: it has %d bytes, and max_result= is %d",
                key,
                len(result),
                self._max_result,
            )
            result = None
        return closing(stored_key(key), caller.driver.dialect, self._retention, result)

    def _purge_now_and_then(self) -> None:
        if time.monotonic() >= self._purge_at:
            self._purge_at = time.monotonic() + _PURGE_EVERY
            values = {"retention": self._retention, "most": _PURGE_BATCH}
            removed = self._database.run(
                lambda session: session.change(sql.PURGE_KEYS, **values), Access.ONE
            )
            if removed == _PURGE_BATCH:  # the next message goes on with it
                self._purge_at = 0.0

    def close(self) -> None:
        """Lets go of connections. A later message is put back."""
        self._database.close()

    def _told(self, failure: Exception) -> Exception:
        return mapped(failure, self._database.table, self._database.spoken)


class SqlInbox(_Inbox):
    """Transactions for plain handlers, each in the thread that asks for it."""

    @asynccontextmanager
    async def transaction(self, key: str) -> AsyncIterator[Begun]:
        """A transaction in which the message is claimed; committed at the end, undone by an error.

        Nothing in it suspends.

        :raises StoreError: the database failed, or is not there; the commit may have taken place
        """
        self._schema.ensure()
        self._purge_now_and_then()
        try:
            with self._database.lent(Access.SEVERAL) as connection:
                caller = Caller(connection, self._database.table, self._dialect)
                claim, kept = caller.run(self._steps(caller, key))
                begun = Begun(claim, connection, kept)
                with guarded(key, connection):
                    yield begun
                if claim is Claim.CLAIMED:
                    with marking(key):
                        marked = caller.run(self._closing(caller, key, begun.result))
                    checked_mark(key, marked)
        except Exception as failure:
            told = self._told(failure)
            if told is failure:
                raise
            raise told from failure


class AsyncSqlInbox(_Inbox):
    """Transactions on asynchronous connections, for coroutine functions.

    :param connect: an address; or what opens a connection of psycopg, aiosqlite or SQLAlchemy, or
        lends one for a while, such as ``AsyncConnectionPool.connection``, ``AsyncEngine.connect``
        or an ``async_sessionmaker``
    """

    def __init__(self, connect: str | Callable[[], Any], **options: Any) -> None:
        self._options = options
        self._beside: Beside | None = None
        if isinstance(connect, str):
            self._open = opener(connect)
            self._beside = at_address(connect)
            super().__init__(connect, **options)
        else:
            self._open = connect
            super().__init__(self._found_beside if callable(connect) else connect, **options)

    @asynccontextmanager
    async def transaction(self, key: str) -> AsyncIterator[Begun]:
        """A transaction in which the message is claimed; committed at the end, undone by an error.

        :raises StoreError: the database failed, or is not there; the commit may have taken place
        """
        try:
            self._database.refuse_closed()
            await self._look_after()
            async with AsyncExitStack() as stack:
                if self._beside is not None and self._beside.lock is not None:
                    waiting = self._beside.lock.held(PATIENCE)
                    await stack.enter_async_context(held(self._database.threads, waiting))
                connection = await stack.enter_async_context(lent(self._open))
                await stack.enter_async_context(in_transaction(connection))
                caller = Caller(connection, self._database.table, self._dialect)
                claim, kept = await caller.awaiting(self._steps(caller, key))
                begun = Begun(claim, connection, kept)
                with guarded(key, connection):
                    yield begun
                if claim is Claim.CLAIMED:
                    with marking(key):
                        marked = await caller.awaiting(self._closing(caller, key, begun.result))
                    checked_mark(key, marked)
        except Exception as failure:
            told = self._told(failure)
            if told is failure:
                raise
            raise told from failure

    async def _look_after(self) -> None:
        """Makes the table ready at the first message, and purges now and then.

        On a plain connection in a thread; where only SQLAlchemy knows how to connect, on one more
        of its own.
        """
        if self._ready and time.monotonic() < self._purge_at:
            return
        if self._beside is None:
            async with lent(self._open) as connection:
                if is_sqlalchemy(connection):
                    await connection.run_sync(self._looked_after_on)
                    self._ready = True
                    return
                self._beside = await beside(connection)
        await self._database.call(self._looked_after)
        self._ready = True

    def _looked_after(self) -> None:
        self._schema.ensure()
        self._purge_now_and_then()
        if self._purge_at:
            self._database.rest()  # it is wanted again in a minute at the earliest

    def _looked_after_on(self, plain: Any) -> None:
        inbox = _Inbox(lambda: nullcontext(plain), **self._options)
        inbox._schema.ensure()
        inbox._purge_at = self._purge_at
        inbox._purge_now_and_then()
        self._purge_at = inbox._purge_at

    def _found_beside(self) -> Any:
        assert self._beside is not None  # looked up before anything is asked of it
        return self._beside.connect()
