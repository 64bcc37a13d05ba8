"""What is known of the drivers whose connections the stores are given.

A driver is told by the package its connection's class comes from. Of each stand here its dialect,
its paramstyle, and when a statement on its connection would be committed at once, so that an
outbox record would not be part of anything.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from acemq_amqp.errors import ConfigurationError
from acemq_stores.sql.dialects import POSTGRESQL, SQLITE, Dialect, dialect_named
from acemq_stores.sql.sqlalchemy_objects import (
    dialect_of,
    driver_connection_of,
    is_awaited,
    is_sqlalchemy,
)

log = logging.getLogger("acemq_stores")

#: psycopg and psycopg2 count alike: 0 is IDLE
_IDLE: Final = 0


@dataclass(frozen=True, slots=True)
class Driver:
    """How to speak to one driver's connections.

    :ivar autocommits: whether no transaction is open and the driver would not open one
    :ivar in_transaction: whether one is open, as far as that can be asked
    """

    name: str
    dialect: Dialect
    paramstyle: str
    autocommits: Callable[[Any], bool]
    in_transaction: Callable[[Any], bool] = lambda connection: bool(connection.in_transaction)


def _sqlite_autocommits(connection: Any) -> bool:
    if connection.in_transaction:
        return False
    # Python 3.12's attribute; its default (-1: as before) leaves it to isolation_level
    autocommit = getattr(connection, "autocommit", -1)
    if autocommit is True:
        return True
    return autocommit is not False and connection.isolation_level is None


def _psycopg_autocommits(connection: Any) -> bool:
    return bool(connection.autocommit) and connection.info.transaction_status == _IDLE


def _aiosqlite_autocommits(connection: Any) -> bool:
    return not connection.in_transaction and connection.isolation_level is None


def _django_autocommits(connection: Any) -> bool:
    return bool(connection.get_autocommit())


def _django_in_transaction(connection: Any) -> bool:
    return not connection.get_autocommit()


_doubted: set[str] = set()


def _unknown_autocommits(connection: Any) -> bool:
    if getattr(connection, "autocommit", None) is True:
        return True
    kind = type(connection).__module__
    if kind not in _doubted:
        _doubted.add(kind)
        log.warning(
            "acemq: %s is a driver the outbox does not know: that its connections open "
            "transactions by themselves is taken on trust",
            kind,
        )
    return False


SQLITE3: Final = Driver("sqlite3", SQLITE, "qmark", _sqlite_autocommits)
PSYCOPG: Final = Driver("psycopg", POSTGRESQL, "pyformat", _psycopg_autocommits)

_KNOWN: Final = {
    driver.name: driver
    for driver in (
        SQLITE3,
        PSYCOPG,
        Driver("aiosqlite", SQLITE, "qmark", _aiosqlite_autocommits),
        Driver("psycopg2", POSTGRESQL, "pyformat", _psycopg_autocommits),
    )
}

#: their SQL differs in too much: upserts, partial indexes, what a statement returns
_OF_MYSQL: Final = frozenset({"pymysql", "MySQLdb", "mysql", "mariadb", "aiomysql", "asyncmy"})


def driver_of(connection: Any, dialect: str | None = None) -> Driver:
    """What is known of a connection's driver.

    :param dialect: for drivers that are not known here
    :raises ConfigurationError: not known, and no dialect given
    """
    if is_sqlalchemy(connection):
        return _sqlalchemy(connection)
    packages = [kind.__module__.partition(".")[0] for kind in type(connection).__mro__]
    for package in packages:
        if package in _KNOWN:
            return _KNOWN[package]
    vendor = getattr(connection, "vendor", None)
    if isinstance(vendor, str) and hasattr(connection, "get_autocommit"):
        return Driver(
            "django", dialect_named(vendor), "format", _django_autocommits, _django_in_transaction
        )
    if dialect is None:
        for package in packages:
            if package in _OF_MYSQL:
                dialect_named("mysql")  # raises
        raise ConfigurationError(
            f"acemq: the stores do not know connections of {type(connection).__module__}."
            f"{type(connection).__qualname__}: name their SQL with dialect='postgresql' or "
            "dialect='sqlite'"
        )
    return Driver("", dialect_named(dialect), _paramstyle(connection), _unknown_autocommits)


def _sqlalchemy(given: Any) -> Driver:
    """Whether it commits each statement is a matter of the driver's connection under it.

    SQLAlchemy itself takes a connection in autocommit for one in a transaction. Under an
    asynchronous form it is asked where that gives its plain one.
    """
    dialect = dialect_of(given)
    known = dialect_named(dialect.name)
    if is_awaited(given):
        return Driver(
            "sqlalchemy",
            known,
            dialect.paramstyle,
            lambda given: False,
            lambda given: bool(given.in_transaction()),
        )

    def autocommits(given: Any) -> bool:
        under = driver_connection_of(given)
        return driver_of(under, known.name).autocommits(under)

    def in_transaction(given: Any) -> bool:
        under = driver_connection_of(given)
        return driver_of(under, known.name).in_transaction(under)

    return Driver("sqlalchemy", known, dialect.paramstyle, autocommits, in_transaction)


def _paramstyle(connection: Any) -> str:
    package = type(connection).__module__.partition(".")[0]
    style = getattr(sys.modules.get(package), "paramstyle", None)
    return style if isinstance(style, str) else "format"
