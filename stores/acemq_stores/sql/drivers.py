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

log = logging.getLogger("acemq_stores")

#: psycopg and psycopg2 count alike: 0 is IDLE
_IDLE: Final = 0


@dataclass(frozen=True, slots=True)
class Driver:
    """How to speak to one driver's connections.

    :ivar autocommits: whether no transaction is open and the driver would not open one
    """

    name: str
    dialect: Dialect
    paramstyle: str
    autocommits: Callable[[Any], bool]


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


def driver_of(connection: Any, dialect: str | None = None) -> Driver:
    """What is known of a connection's driver.

    :param dialect: for drivers that are not known here
    :raises ConfigurationError: not known, and no dialect given
    """
    for kind in type(connection).__mro__:
        known = _KNOWN.get(kind.__module__.partition(".")[0])
        if known is not None:
            return known
    vendor = getattr(connection, "vendor", None)
    if isinstance(vendor, str) and hasattr(connection, "get_autocommit"):
        return Driver("django", dialect_named(vendor), "format", _django_autocommits)
    if dialect is None:
        raise ConfigurationError(
            f"acemq: the stores do not know connections of {type(connection).__module__}."
            f"{type(connection).__qualname__}: name their SQL with dialect='postgresql' or "
            "dialect='sqlite'"
        )
    return Driver("", dialect_named(dialect), _paramstyle(connection), _unknown_autocommits)


def _paramstyle(connection: Any) -> str:
    package = type(connection).__module__.partition(".")[0]
    style = getattr(sys.modules.get(package), "paramstyle", None)
    return style if isinstance(style, str) else "format"
