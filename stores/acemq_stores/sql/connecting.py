"""A store's way to its database: from an address or a callable to work that was done.

A piece of work is a function of a :class:`Session`. It runs in one transaction, is undone as a
whole by an error, and is written so that it may run twice: a connection that broke, or a
transaction the database undid for another's sake, is answered by doing it again.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from acemq_amqp.errors import ConfigurationError, StoreError
from acemq_amqp.flavours.workers import WorkerThreads
from acemq_amqp.patterns.waiting import Done, off_the_loop, on_a_loop
from acemq_stores.sql.dialects import Dialect, checked_table
from acemq_stores.sql.drivers import SQLITE3, driver_of
from acemq_stores.sql.failures import asks_for_repeat, is_database_error, lost_connection, mapped
from acemq_stores.sql.rendering import Rendering
from acemq_stores.sql.session import Session
from acemq_stores.sql.sources import (
    PATIENCE,
    Access,
    GivenConnections,
    PostgresPool,
    Source,
    SqliteFile,
    is_connection,
)
from acemq_stores.sql.sqlalchemy_objects import cursor_of

T = TypeVar("T")
#: An address, or what gives a PEP 249 connection.
Connect = str | Callable[[], Any]

_TRIES: Final = 5
#: statements at once in the async flavour, and connections at most
_WIDTH: Final = 8


class Database:
    """One store's database, connected to at the first piece of work.

    :param connect: ``sqlite:///path``, ``postgresql://...``, or a callable that gives a PEP 249
        connection, or a context manager that lends one
    :param table: which ``{table}`` stands for
    :param dialect: for connections of a driver that is not known
    :param width: pieces of work at once
    :param kept: connections of a callable that are kept for their next use
    :raises ConfigurationError: an address that names no database that can be shared
    """

    def __init__(
        self,
        connect: Connect,
        table: str,
        *,
        dialect: str | None = None,
        width: int = _WIDTH,
        kept: int = _WIDTH,
    ) -> None:
        self.table = checked_table(table)
        self._connect = connect
        self._dialect = dialect
        self._guard = threading.Lock()
        self._width = width
        self._kept = kept
        self._threads = WorkerThreads(width, "acemq-store")
        self._closed = False
        self._source: Source | None = None
        if isinstance(connect, str):  # an address that cannot be is refused here
            self._source = _source_at(connect, width)
        self._rendering: Rendering | None = None
        if not isinstance(connect, str) and not callable(connect):
            raise ConfigurationError(
                f"acemq: a store connects by an address or a callable, not by a "
                f"{type(connect).__name__}: pass the function that opens a connection"
            )

    @property
    def dialect(self) -> Dialect:
        """What the database speaks; connects to it where that is not known yet."""
        return self._opened().driver.dialect

    def run(self, work: Callable[[Session], T], access: Access = Access.SEVERAL) -> T:
        """Does a piece of work in a transaction of its own, in this thread.

        :raises StoreError: the database failed, or is not there
        """
        for left in reversed(range(_TRIES)):
            try:
                return self._once(work, access)
            except Exception as failure:
                if not left or not self._worth_another(failure):
                    told = mapped(failure, self.table, self.spoken)
                    if told is failure:
                        raise
                    raise told from failure
        raise AssertionError  # the last try returns or raises

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Calls what blocks: in a thread of the store's own where a loop would be held up."""
        return await off_the_loop(self._threads, function, *args)

    def done(self, function: Callable[..., T], *args: Any) -> Awaitable[T]:
        """The same, done when this returns where no loop would be held up."""
        return self.call(function, *args) if on_a_loop() else Done(function(*args))

    @property
    def threads(self) -> WorkerThreads:
        """Where what blocks is done for an event loop."""
        return self._threads

    @contextmanager
    def lent(self, access: Access) -> Iterator[Any]:
        """A connection as its driver gives it, in a transaction that ends with the context."""
        with self._opened().lent(access) as connection:
            yield connection

    @property
    def spoken(self) -> str:
        """What the database speaks, for an error's text; SQL where that is not known yet."""
        source = self._source
        return "SQL" if source is None else source.driver.dialect.name

    def close(self) -> None:
        """Lets go of connections and threads. A later piece of work is refused."""
        self._closed = True
        self.rest()

    def refuse_closed(self) -> None:
        """Lets pass what was not closed.

        :raises StoreError: it was
        """
        if self._closed:
            raise StoreError(
                f"acemq: the store of table {self.table!r} was closed by this program and does "
                "nothing any more: make another one, and close it after all that use it"
            )

    def rest(self) -> None:
        """Lets go of connections and threads. A later piece of work connects again."""
        self._threads.stop()
        source, self._source = self._source, None
        if source is not None:
            source.close()

    # ------------------------------------------------------------ inside

    def _once(self, work: Callable[[Session], T], access: Access) -> T:
        source = self._opened()
        with source.lent(access) as connection:
            cursor = cursor_of(connection)
            result = work(Session(cursor, self._rendered(source), connection))
            cursor.close()
        return result

    def _worth_another(self, failure: Exception) -> bool:
        if not is_database_error(failure):
            return False
        if asks_for_repeat(failure):
            return True
        if not lost_connection(failure) or self._source is None:
            return False
        self._source.freshen()
        return True

    def _opened(self) -> Source:
        self.refuse_closed()
        if self._source is None:
            with self._guard:
                if self._source is None:
                    self._source = self._looked_up()
        return self._source

    def _looked_up(self) -> Source:
        if isinstance(self._connect, str):
            return _source_at(self._connect, self._width)
        try:
            return _source_from(self._connect, self._dialect, self._kept)
        except Exception as failure:
            told = mapped(failure, self.table, "SQL")
            if told is failure:
                raise
            raise told from failure

    def _rendered(self, source: Source) -> Rendering:
        if self._rendering is None:
            driver = source.driver
            self._rendering = Rendering(driver.dialect, driver.paramstyle, self.table)
        return self._rendering


def _source_at(url: str, width: int) -> Source:
    scheme = url.partition(":")[0].lower()
    if scheme == "sqlite":
        return sqlite_at(url)
    if scheme in ("postgresql", "postgres"):
        return PostgresPool(url, width)
    raise ConfigurationError(
        f"acemq: a store cannot connect to {scheme + ':' if scheme else url!r}: give "
        "sqlite:///path, postgresql://user@host/database, or a callable that gives a connection"
    )


def sqlite_path(url: str) -> str:
    """The path in ``sqlite:///relative`` or ``sqlite:////absolute``.

    :raises ConfigurationError: there is none, or it stays in memory
    """
    split = urlsplit(url)
    path = split.path.removeprefix("/")
    if split.netloc:
        raise ConfigurationError(
            f"acemq: {url!r} names a host, and SQLite is a file: write three slashes before a "
            "relative path, four before an absolute one"
        )
    if not path or path == ":memory:":
        raise _in_memory()
    return path


def sqlite_at(url: str) -> SqliteFile:
    """The database at an address."""
    import sqlite3

    path = sqlite_path(url)

    def opened() -> Any:
        return sqlite3.connect(
            path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
        )

    return SqliteFile(opened, path, reusable=True)


def _source_from(connect: Callable[[], Any], dialect: str | None, kept: int) -> Source:
    first = connect()
    if not is_connection(first):
        with first as connection:
            return GivenConnections(connect, driver_of(connection, dialect), None)
    driver = driver_of(first, dialect)
    if driver is not SQLITE3:
        return GivenConnections(connect, driver, first, kept=kept)
    path = first.execute("PRAGMA database_list").fetchone()[2]
    first.close()
    if not path:
        raise _in_memory()
    return SqliteFile(connect, path, reusable=False)


def _in_memory() -> ConfigurationError:
    return ConfigurationError(
        "acemq: a SQLite database in memory is lost with its connection: give the path of a file, "
        "as in sqlite:///orders.db, or use the in-memory stores of acemq_amqp.patterns"
    )
