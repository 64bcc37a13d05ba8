"""Transactions in which a message is claimed, for ``acemq_amqp.patterns.transactional``.

The claim is a row that is written first and committed with all else. On PostgreSQL a lock that ends
with the transaction keeps a second delivery of the message out, without letting it wait; on SQLite
the one write lock does.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from acemq_amqp.durations import Duration, milliseconds, seconds
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.patterns.claim import Claim
from acemq_stores.sql import statements as sql
from acemq_stores.sql.adding import lock_of
from acemq_stores.sql.callers import Caller
from acemq_stores.sql.connecting import Connect, Database
from acemq_stores.sql.dialects import POSTGRESQL, Dialect
from acemq_stores.sql.failures import mapped
from acemq_stores.sql.idempotency import stored_key
from acemq_stores.sql.schema import Schema
from acemq_stores.sql.session import Step, Steps
from acemq_stores.sql.sources import Access
from acemq_stores.sql.tables import IDEMPOTENCY

#: handlers at once, each with a connection
_WIDTH: Final = 32
_PURGE_EVERY: Final = 60.0
_PURGE_BATCH: Final = 1000


def claiming(key: str, table: str, dialect: Dialect, lease: int, retention: float) -> Steps[Claim]:
    """The steps that claim a message in a transaction, without waiting for another one's end."""
    if dialect is POSTGRESQL:
        yield Step(sql.LIMIT_IDLE, {"limit": str(lease)}, wants=True)
        rows = yield Step(sql.TRY_LOCK, {"lock": lock_of("inbox", table, key)}, wants=True)
        if not rows[0][0]:
            return Claim.IN_PROGRESS
    rows = yield Step(sql.FIRST_TIME, {"key": key, "retention": retention}, wants=True)
    return Claim.CLAIMED if rows else Claim.DUPLICATE


class _Inbox:
    """What both inboxes have in common."""

    def __init__(
        self,
        connect: Connect,
        *,
        lease: Duration,
        retention: Duration,
        table: str,
        dialect: str | None,
        create: bool,
    ) -> None:
        self._lease = milliseconds(lease, "lease")
        self._retention = seconds(retention, "retention")
        self._database = Database(connect, table, dialect=dialect, width=_WIDTH, kept=0)
        self._schema = Schema(self._database, IDEMPOTENCY, create=create)
        self._dialect = dialect
        self._purge_at = time.monotonic() + _PURGE_EVERY

    def _steps(self, caller: Caller, key: str) -> Steps[Claim]:
        return claiming(
            stored_key(key),
            self._database.table,
            caller.driver.dialect,
            self._lease,
            self._retention,
        )

    def _purge_now_and_then(self) -> None:
        if time.monotonic() >= self._purge_at:
            self._purge_at = time.monotonic() + _PURGE_EVERY
            values = {"retention": self._retention, "most": _PURGE_BATCH}
            self._database.run(lambda session: session.change(sql.PURGE_KEYS, **values), Access.ONE)

    def close(self) -> None:
        """Lets go of connections. A later message connects again."""
        self._database.close()

    def _told(self, failure: Exception) -> Exception:
        return mapped(failure, self._database.table, self._database.spoken)


class SqlInbox(_Inbox):
    """Transactions for plain handlers, each in the thread that asks for it."""

    @asynccontextmanager
    async def transaction(self, key: str) -> AsyncIterator[tuple[Claim, Any]]:
        """A transaction in which the message is claimed; committed at the end, undone by an error.

        Nothing in it suspends.

        :raises StoreError: the database failed, or is not there; the commit may have taken place
        """
        self._schema.ensure()
        self._purge_now_and_then()
        try:
            with self._database.lent(Access.SEVERAL) as connection:
                caller = Caller(connection, self._database.table, self._dialect)
                yield caller.run(self._steps(caller, key)), connection
        except Exception as failure:
            told = self._told(failure)
            if told is failure:
                raise
            raise told from failure


class AsyncSqlInbox(_Inbox):
    """Transactions on psycopg's asynchronous connections, for coroutine functions.

    :param connect: an address of PostgreSQL; or what opens a connection, or lends one for a while,
        such as ``AsyncConnectionPool.connection``
    """

    def __init__(self, connect: str | Callable[[], Any], **options: Any) -> None:
        self._address: str | None = None
        if isinstance(connect, str):
            if not connect.startswith(("postgresql:", "postgres:")):
                raise ConfigurationError(
                    "acemq: an 'async def' transactional handler wants PostgreSQL: SQLite has no "
                    "connection of its own that can be awaited; make the handler a plain 'def', "
                    "which runs in a thread"
                )
            self._open = _opener(connect)
            self._address = connect
            super().__init__(connect, **options)
        else:
            self._open = connect
            super().__init__(self._beside, **options)

    @asynccontextmanager
    async def transaction(self, key: str) -> AsyncIterator[tuple[Claim, Any]]:
        """A transaction in which the message is claimed; committed at the end, undone by an error.

        :raises StoreError: the database failed, or is not there; the commit may have taken place
        """
        try:
            if self._address is None:
                self._address = await self._looked_up()
            await self._database.call(self._look_after)
            async with self._lent() as connection, connection.transaction():
                caller = Caller(connection, self._database.table, self._dialect)
                yield await caller.awaiting(self._steps(caller, key)), connection
        except Exception as failure:
            told = self._told(failure)
            if told is failure:
                raise
            raise told from failure

    async def _looked_up(self) -> str:
        """Where the given connections go to, for a plain one beside them."""
        from psycopg.conninfo import make_conninfo

        async with self._lent() as connection:
            told = connection.info
            return make_conninfo(told.dsn, **({"password": told.password} if told.password else {}))

    def _beside(self) -> Any:
        import psycopg

        return psycopg.connect(self._address or "")

    def _look_after(self) -> None:
        if self._schema.ready and time.monotonic() < self._purge_at:
            return
        self._schema.ensure()
        self._purge_now_and_then()
        self._database.close()  # it is wanted again in a minute at the earliest

    @asynccontextmanager
    async def _lent(self) -> AsyncIterator[Any]:
        given = self._open()
        if hasattr(given, "__aenter__") and not hasattr(given, "__await__"):
            async with given as connection:
                yield connection
            return
        connection = await given
        try:
            yield connection
        finally:
            await connection.close()


def _opener(url: str) -> Callable[[], Any]:
    from psycopg import AsyncConnection

    async def opened() -> Any:
        return await AsyncConnection.connect(url, autocommit=True, connect_timeout=10)

    return opened
