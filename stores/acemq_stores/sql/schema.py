"""Creating and migrating the stores' tables, and printing how.

Whoever comes first does it, under a lock that the others wait for: an advisory lock on PostgreSQL,
the lock file on SQLite. It happens on a connection of the store's own, never on the caller's. With
``create=False`` nothing is created, and what is missing is named.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from acemq_amqp.errors import ConfigurationError
from acemq_stores.sql.connecting import Connect, Database
from acemq_stores.sql.dialects import POSTGRESQL, checked_table, dialect_named
from acemq_stores.sql.rendering import Statement, filled
from acemq_stores.sql.session import Session
from acemq_stores.sql.sources import Access
from acemq_stores.sql.tables import KINDS, VERSIONS, VERSIONS_DDL, Kind

#: One lock for all tables of ours; the number stands for "acemq".
_LOCK = Statement("schema_lock", f"SELECT pg_advisory_xact_lock({int.from_bytes(b'acemq')})")
_EXISTS = Statement("table_exists", "{exists}")
_VERSION = Statement("schema_version", f"SELECT version, kind FROM {VERSIONS} WHERE name = :table")
_NOTE = Statement(
    "schema_note",
    f"""INSERT INTO {VERSIONS} (name, kind, version) VALUES (:table, :kind, :version)
ON CONFLICT (name) DO UPDATE SET version = excluded.version""",
)


class Schema:
    """One store's table, made ready once.

    :param create: whether to create and migrate, or only to look
    """

    def __init__(self, database: Database, kind: Kind, *, create: bool) -> None:
        self._database = database
        self._kind = kind
        self._create = create
        self._guard = threading.Lock()
        self._ready = False

    @property
    def ready(self) -> bool:
        """Whether it has been made ready."""
        return self._ready

    def ensure(self, *, may_create: bool = True) -> None:
        """Makes the table ready, at the first call.

        :param may_create: False where the caller's transaction holds the lock it would wait for
        :raises ConfigurationError: it is of a newer library, or missing and not to be created
        :raises StoreError: the database failed
        """
        if self._ready:
            return
        with self._guard:
            if not self._ready and not self._is_current(may_create):
                self._bring_up()
            self._ready = True

    def _is_current(self, may_create: bool) -> bool:
        found = self._database.run(self._found, Access.READ)
        _refuse_newer(found, self._kind, self._database.table)
        if found == self._kind.version:
            return True
        if not self._create:
            raise self._missing(found, "create=False")
        if not may_create:
            raise self._missing(found, "this call's open transaction is in the way of creating it")
        return False

    def _found(self, session: Session) -> int:
        return version_of(session, self._kind, self._database.table)

    def _bring_up(self) -> None:
        self._database.run(lambda session: migrate(session, self._kind, self._database.table))

    def _missing(self, found: int, why: str) -> ConfigurationError:
        table, kind = self._database.table, self._kind
        state = f"is of version {found}, not {kind.version}" if found else "is missing"
        return ConfigurationError(
            f"acemq: table {table!r} of the {kind.name} store {state}, and {why}: call "
            f"create_schema first, or run what schema_ddl({self._database.dialect.name!r}) gives"
        )


def version_of(session: Session, kind: Kind, table: str) -> int:
    """The version of a store's table; 0 where there is none.

    :raises ConfigurationError: a table of that name belongs to another store
    """
    if session.row(_EXISTS, table=VERSIONS) is None or not session.row(_EXISTS, table=table):
        return 0
    row = session.row(_VERSION, table=table)
    if row is None:
        raise ConfigurationError(
            f"acemq: there is a table {table!r} that no store has made: name another with table="
        )
    if row[1] != kind.name:
        raise ConfigurationError(
            f"acemq: table {table!r} is that of the {row[1]} store: name another with table="
        )
    return int(row[0])


def migrate(session: Session, kind: Kind, table: str) -> None:
    """Takes the steps that a table has not had yet, in the session's transaction."""
    dialect = session.rendering.dialect
    if dialect is POSTGRESQL:
        session.rows(_LOCK)
    session.define(VERSIONS_DDL)
    found = version_of(session, kind, table)
    _refuse_newer(found, kind, table)
    for step in kind.steps[found:]:
        for text in step:
            session.define(filled(text, dialect, table))
    session.change(_NOTE, table=table, kind=kind.name, version=kind.version)


def _refuse_newer(found: int, kind: Kind, table: str) -> None:
    if found > kind.version:
        raise ConfigurationError(
            f"acemq: table {table!r} is of version {found} and this library knows "
            f"{kind.version}: use a newer acemq-amqp with this database"
        )


_ALL: Final[Mapping[str, str]] = {kind.name: kind.table for kind in KINDS.values()}


def create_schema(
    connect: Connect, tables: Mapping[str, str] | None = None, *, dialect: str | None = None
) -> None:
    """Creates the stores' tables, or brings them to the newest version. Safe to call at any time.

    :param connect: as for a store
    :param tables: names by kind of store, such as ``{"outbox": "shop_outbox"}``; by default every
        kind under its own name
    :raises StoreError: the database failed
    """
    for name, table in (_ALL if tables is None else tables).items():
        database = Database(connect, table, dialect=dialect)
        try:
            Schema(database, _kind(name), create=True).ensure()
        finally:
            database.close()


def schema_ddl(dialect: str, tables: Mapping[str, str] | None = None) -> str:
    """The SQL that makes the stores' tables from nothing, to be run by hand.

    :param dialect: ``"postgresql"`` or ``"sqlite"``
    :param tables: as for :func:`create_schema`
    :raises ConfigurationError: no such dialect or kind of store, or a name that cannot be a table's
    """
    known = dialect_named(dialect)
    parts = [VERSIONS_DDL.strip()]
    for name, table in (_ALL if tables is None else tables).items():
        kind, table = _kind(name), checked_table(table)
        parts += [filled(text, known, table).strip() for step in kind.steps for text in step]
        parts.append(
            f"INSERT INTO {VERSIONS} (name, kind, version) "
            f"VALUES ('{table}', '{kind.name}', {kind.version})"
        )
    return ";\n\n".join(parts) + ";\n"


def _kind(name: str) -> Kind:
    kind = KINDS.get(name)
    if kind is None:
        raise ConfigurationError(
            f"acemq: there is no {name!r} store with tables; there are {', '.join(KINDS)}"
        )
    return kind
