"""A plain connection to where an asynchronous one goes, to make tables and to purge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from acemq_amqp.errors import ConfigurationError
from acemq_stores.sql.lockfile import LockFile
from acemq_stores.sql.sources import PATIENCE


@dataclass(frozen=True, slots=True)
class Beside:
    """How to connect there.

    :ivar lock: of a SQLite file
    """

    connect: Callable[[], Any]
    lock: LockFile | None = None


async def beside(connection: Any) -> Beside:
    """Where an open asynchronous connection goes to.

    :raises ConfigurationError: none of psycopg or aiosqlite, or a database in memory
    """
    if hasattr(connection, "info"):
        return _postgresql(connection.info)
    if not type(connection).__module__.startswith("aiosqlite"):
        raise ConfigurationError(
            f"acemq: an inbox does not know connections of {type(connection).__module__}: give "
            "one of psycopg, aiosqlite or SQLAlchemy, or make the handler a plain 'def'"
        )
    async with connection.execute("PRAGMA database_list") as cursor:
        path = (await cursor.fetchone())[2]
    if not path:
        raise ConfigurationError(
            "acemq: a SQLite database in memory is lost with its connection: connect to a file"
        )
    return _sqlite(path)


def at_address(url: str) -> Beside | None:
    """What is to be known of an address besides itself."""
    from acemq_stores.sql.connecting import sqlite_path

    return _sqlite(sqlite_path(url)) if url.startswith("sqlite:") else Beside(lambda: None)


def opener(url: str) -> Callable[[], Any]:
    """What opens an asynchronous connection at an address.

    :raises ConfigurationError: aiosqlite is wanted, and not there
    """
    if url.startswith("sqlite:"):
        return _aiosqlite(url)

    async def opened() -> Any:
        from psycopg import AsyncConnection

        return await AsyncConnection.connect(url, autocommit=True, connect_timeout=10)

    return opened


def _aiosqlite(url: str) -> Callable[[], Any]:
    from acemq_stores.sql.connecting import sqlite_path

    path = sqlite_path(url)
    try:
        import aiosqlite
    except ImportError as missing:
        raise ConfigurationError(
            f"acemq: an 'async def' transactional handler on SQLite needs aiosqlite ({missing}): "
            "pip install aiosqlite, or make the handler a plain 'def', which runs in a thread"
        ) from missing

    async def opened() -> Any:
        return await aiosqlite.connect(path, timeout=PATIENCE, isolation_level=None)

    return opened


def _sqlite(path: str) -> Beside:
    def connect() -> Any:
        import sqlite3

        return sqlite3.connect(path, timeout=PATIENCE)

    return Beside(connect, LockFile(path))


def _postgresql(info: Any) -> Beside:
    from psycopg.conninfo import make_conninfo

    address = make_conninfo(info.dsn, **({"password": info.password} if info.password else {}))

    def connect() -> Any:
        import psycopg

        return psycopg.connect(address)

    return Beside(connect)
