"""Where a store's own connections come from: a SQLite file, a pool, or a callable of the user's.

A source lends one connection at a time for one piece of work, and ends its transaction. One that
failed is not used again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from enum import Enum
from typing import Any, Protocol

from acemq_amqp.errors import ConfigurationError
from acemq_stores.sql.drivers import PSYCOPG, SQLITE3, Driver
from acemq_stores.sql.lockfile import LockFile
from acemq_stores.sql.sqlalchemy_objects import cursor_of

#: seconds that a store waits for a connection, or for SQLite's write lock
PATIENCE = 30.0


class Access(Enum):
    """What a piece of work does."""

    #: looks only
    READ = "read"
    #: changes something, by one statement
    ONE = "one statement"
    #: changes something, by statements of which each stands by itself: no lock outlives one
    EACH = "each statement"
    #: changes something, by statements that belong together
    SEVERAL = "several statements"


class Source(Protocol):
    """Lends connections."""

    @property
    def driver(self) -> Driver: ...

    def lent(self, access: Access) -> AbstractContextManager[Any]:
        """A connection for one piece of work, committed at the end, undone by an error."""

    def freshen(self) -> None:
        """Lets go of connections that may have died with another."""

    def close(self) -> None:
        """Lets go of all of them."""


class Idle:
    """Connections that wait for their next use, newest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._guard = threading.Lock()
        self._waiting: list[Any] = []

    def take(self) -> Any:
        """One that waits, or None."""
        with self._guard:
            return self._waiting.pop() if self._waiting else None

    def give(self, connection: Any) -> None:
        """Keeps one, or closes it where enough wait."""
        with self._guard:
            kept = len(self._waiting) < self._most
            if kept:
                self._waiting.append(connection)
        if not kept:
            connection.close()

    def close(self) -> None:
        """Closes all that wait."""
        with self._guard:
            waiting, self._waiting = self._waiting, []
        for connection in waiting:
            with suppress(Exception):
                connection.close()


class SqliteFile:
    """A SQLite database that several threads and processes write to.

    :param opened: gives a new connection
    :param reusable: whether any thread may use one
    """

    def __init__(self, opened: Callable[[], Any], path: str, *, reusable: bool) -> None:
        self.driver = SQLITE3
        self._opened = opened
        self._lock = LockFile(path)
        self._idle = Idle(8 if reusable else 0)

    @contextmanager
    def lent(self, access: Access) -> Iterator[Any]:
        connection = self._idle.take()
        if connection is None:
            connection = self._opened()
            # Transactions are begun here, by name: the driver begins none of its own.
            connection.isolation_level = None
        try:
            if access is Access.READ:
                yield connection
            else:
                with self._lock.held(PATIENCE):
                    yield from _in_transaction(connection)
        except BaseException:
            connection.close()
            raise
        self._idle.give(connection)

    def freshen(self) -> None:
        self._idle.close()

    def close(self) -> None:
        self._idle.close()


def _in_transaction(connection: Any) -> Iterator[Any]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    except BaseException:
        with suppress(Exception):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


class PostgresPool:
    """A pool of psycopg's, opened at its first use.

    :param size: connections at most
    """

    def __init__(self, url: str, size: int) -> None:
        try:
            import psycopg_pool
        except ImportError as missing:
            raise ConfigurationError(
                f"acemq: a postgresql:// address needs psycopg and its pool ({missing}): "
                "pip install 'acemq-amqp[postgres]'"
            ) from missing
        self.driver = PSYCOPG
        self._guard = threading.Lock()
        self._opened = False
        self._pool: Any = psycopg_pool.ConnectionPool(
            url,
            # single statements are transactions of their own, in one exchange with the server
            kwargs={"autocommit": True, "connect_timeout": 10},
            min_size=1,
            max_size=size,
            timeout=PATIENCE,
            name="acemq-stores",
            open=False,
        )

    @contextmanager
    def lent(self, access: Access) -> Iterator[Any]:
        if not self._opened:
            with self._guard:
                self._pool.open()
                self._opened = True
        with self._pool.connection() as connection:
            if access is Access.SEVERAL:
                with connection.transaction():
                    yield connection
            else:
                yield connection

    def freshen(self) -> None:
        self._pool.check()

    def close(self) -> None:
        self._pool.close()


class GivenConnections:
    """What a callable gives: connections to keep, or context managers that lend one.

    :param first: a connection that was opened to look at its driver
    :param kept: connections that are kept for their next use
    """

    def __init__(
        self, connect: Callable[[], Any], driver: Driver, first: Any, *, kept: int = 8
    ) -> None:
        self.driver = driver
        self._connect = connect
        self._idle = Idle(kept)
        if first is not None:
            self._idle.give(first)

    @contextmanager
    def lent(self, access: Access) -> Iterator[Any]:
        given = self._idle.take()
        if given is None:
            given = self._connect()
        if not is_connection(given):
            with given as connection:
                yield from self._ended(connection, access)
            return
        try:
            yield from self._ended(given, access)
        except BaseException:
            with suppress(Exception):
                given.close()
            raise
        self._idle.give(given)

    def _ended(self, connection: Any, access: Access) -> Iterator[Any]:
        by_hand = access is Access.SEVERAL and self.driver.autocommits(connection)
        if by_hand:
            _execute(connection, "BEGIN")
        try:
            yield connection
        except BaseException:
            with suppress(Exception):
                _execute(connection, "ROLLBACK") if by_hand else connection.rollback()
            raise
        if by_hand:
            _execute(connection, "COMMIT")
        else:
            connection.commit()

    def freshen(self) -> None:
        self._idle.close()

    def close(self) -> None:
        self._idle.close()


def is_connection(given: Any) -> bool:
    """Whether a callable gave a connection, and not a context manager around one."""
    return hasattr(given, "cursor") and hasattr(given, "commit")


def _execute(connection: Any, sql: str) -> None:
    cursor = cursor_of(connection)
    cursor.execute(sql)
    cursor.close()
