"""Records in the caller's transaction: on its connection, its thread, and never without one."""

from __future__ import annotations

import asyncio
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from acemq_amqp import ConfigurationError, StoreError
from acemq_amqp.patterns import OutboxRecord
from acemq_amqp.patterns.waiting import driven
from acemq_stores import SqlOutboxStore, create_schema
from tests.stores import databases


def made(id_: str, key: str = "") -> OutboxRecord:
    return OutboxRecord(id_, "", "q", b"{}", "application/json", b"", key)


def ids(database: str) -> list[str]:
    return [id_ for (id_,) in databases.rows(database, "SELECT id FROM acemq_outbox ORDER BY seq")]


@pytest.fixture
def store(database: str) -> Iterator[SqlOutboxStore]:
    create_schema(database)
    store = SqlOutboxStore(database)
    yield store
    store.close()


@pytest.fixture
def pg_store(postgres_database: str) -> Iterator[SqlOutboxStore]:
    create_schema(postgres_database)
    store = SqlOutboxStore(postgres_database)
    yield store
    store.close()


# ------------------------------------------------------------ the transaction's fate


def test_a_record_is_there_after_the_commit_and_not_before(
    store: SqlOutboxStore, database: str
) -> None:
    with closing(databases.opened(database)) as tx:
        store.add(made("id-1", "k"), connection=tx)
        assert ids(database) == []
        tx.commit()
    assert ids(database) == ["id-1"]


def test_a_record_goes_with_the_transaction(store: SqlOutboxStore, database: str) -> None:
    with closing(databases.opened(database)) as tx:
        store.add(made("id-1", "k"), connection=tx)
        tx.rollback()
        store.add(made("id-2", "k"), connection=tx)
        tx.commit()
    assert ids(database) == ["id-2"]


def test_a_duplicate_leaves_the_transaction_usable(store: SqlOutboxStore, database: str) -> None:
    store.add(made("id-1"))
    with closing(databases.opened(database)) as tx:
        store.add(made("id-1"), connection=tx)
        store.add(made("id-2"), connection=tx)
        tx.commit()
    assert ids(database) == ["id-1", "id-2"]


async def test_on_a_loop_the_caller_s_thread_does_it_too(
    store: SqlOutboxStore, database: str
) -> None:
    with closing(databases.opened(database)) as tx:  # sqlite3 refuses other threads
        await store.add(made("id-1"), connection=tx)
        store.add(made("id-2"), connection=tx)  # done when it returns
        tx.commit()
    assert ids(database) == ["id-1", "id-2"]


async def test_without_a_connection_it_is_committed_by_itself(
    store: SqlOutboxStore, database: str
) -> None:
    await store.add(made("id-1", "k"))
    await asyncio.to_thread(store.add, made("id-2", "k"))
    assert ids(database) == ["id-1", "id-2"]


@pytest.mark.server
async def test_psycopg_s_asynchronous_connection(
    pg_store: SqlOutboxStore, postgres_database: str
) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_database) as tx:
        await pg_store.add_many([made("id-1", "k"), made("id-1", "k"), made("id-2")], connection=tx)
        await tx.rollback()
        await pg_store.add(made("id-3", "k"), connection=tx)
    assert ids(postgres_database) == ["id-3"]


@pytest.mark.server
async def test_an_asynchronous_connection_that_is_not_awaited_warns(
    pg_store: SqlOutboxStore, postgres_database: str
) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_database) as tx:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            pg_store.add(made("id-1"), connection=tx)
        assert "never awaited" in str(seen[0].message)


# ------------------------------------------------------------ isolation


@pytest.mark.server
@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_at_every_isolation_a_duplicate_leaves_the_transaction_usable(
    pg_store: SqlOutboxStore, postgres_database: str, level: str
) -> None:
    with closing(databases.opened(postgres_database)) as tx:
        tx.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        tx.execute("SELECT 1 FROM acemq_outbox")  # the snapshot is taken
        pg_store.add(made("id-1"))  # another's, which the snapshot does not show
        pg_store.add(made("id-1"), connection=tx)
        pg_store.add(made("id-2"), connection=tx)
        tx.commit()
    assert ids(postgres_database) == ["id-1", "id-2"]


@pytest.mark.server
def test_a_record_that_serializable_refuses_is_told_and_never_left_out(
    pg_store: SqlOutboxStore, postgres_database: str
) -> None:
    databases.run(
        postgres_database,
        "CREATE TABLE stock (item int PRIMARY KEY, left_over int)",
        "INSERT INTO stock VALUES (1, 5), (2, 5)",
    )
    serializable = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE"
    with (
        closing(databases.opened(postgres_database)) as tx,
        closing(databases.opened(postgres_database)) as looking,
        closing(databases.opened(postgres_database)) as writing,
    ):
        for each in (tx, looking, writing):
            each.execute(serializable)
            each.commit()
        tx.execute("SELECT left_over FROM stock WHERE item = 1").fetchall()
        tx.execute("UPDATE stock SET left_over = 4 WHERE item = 2")
        looking.execute("SELECT count(*) FROM acemq_outbox").fetchall()
        writing.execute("UPDATE stock SET left_over = 3 WHERE item = 1")
        writing.commit()
        looking.execute("SELECT left_over FROM stock WHERE item = 1").fetchall()
        # who looks came before tx, tx before who wrote, and who wrote before who looks
        with pytest.raises(StoreError, match="do the whole transaction again"):
            pg_store.add(made("id-1"), connection=tx)
        tx.rollback()
        looking.commit()
    assert ids(postgres_database) == []
    assert databases.rows(postgres_database, "SELECT left_over FROM stock WHERE item = 2") == [(5,)]


# ------------------------------------------------------------ what is refused


@pytest.mark.server
@pytest.mark.parametrize("key", ["", "k"])
def test_an_autocommit_connection_of_psycopg_is_refused(
    pg_store: SqlOutboxStore, postgres_database: str, key: str
) -> None:
    with closing(psycopg.connect(postgres_database, autocommit=True)) as tx:
        with pytest.raises(ConfigurationError, match="commit the record at once"):
            pg_store.add(made("id-1", key), connection=tx)
        with tx.transaction():  # begun by name, it is one
            pg_store.add(made("id-2", key), connection=tx)
    assert ids(postgres_database) == ["id-2"]


@pytest.mark.server
async def test_an_asynchronous_autocommit_connection_is_refused(
    pg_store: SqlOutboxStore, postgres_database: str
) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_database, autocommit=True) as tx:
        with pytest.raises(ConfigurationError, match="commit the record at once"):
            pg_store.add(made("id-1"), connection=tx)


def test_an_autocommit_connection_of_sqlite3_is_refused(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/x.db"
    create_schema(database)
    store = SqlOutboxStore(database)
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as tx:
        with pytest.raises(ConfigurationError, match="commit the record at once"):
            store.add(made("id-1"), connection=tx)
        tx.execute("BEGIN IMMEDIATE")
        store.add(made("id-2"), connection=tx)
        tx.execute("COMMIT")
    assert ids(database) == ["id-2"]
    store.close()


@pytest.mark.server
def test_an_aborted_transaction_is_told_and_left_to_the_caller(
    pg_store: SqlOutboxStore, postgres_database: str
) -> None:
    with closing(databases.opened(postgres_database)) as tx:
        with pytest.raises(psycopg.Error):
            tx.execute("SELECT 1 / 0")
        with pytest.raises(StoreError, match="roll it back, and begin again"):
            pg_store.add(made("id-1"), connection=tx)
        tx.rollback()
        pg_store.add(made("id-1"), connection=tx)
        tx.commit()
    assert ids(postgres_database) == ["id-1"]


def test_a_sqlite_transaction_that_read_first_is_told_what_to_do(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/x.db"
    create_schema(database)
    databases.run(database, "PRAGMA journal_mode = WAL")
    store = SqlOutboxStore(database)
    with closing(sqlite3.connect(tmp_path / "x.db", timeout=5)) as tx:
        tx.execute("BEGIN")
        tx.execute("SELECT count(*) FROM acemq_outbox").fetchall()
        store.add(made("another's"))
        with pytest.raises(StoreError, match="BEGIN IMMEDIATE"):
            store.add(made("id-1"), connection=tx)
    store.close()


def test_a_missing_table_is_named_where_the_open_transaction_is_in_the_way(
    tmp_path: Path,
) -> None:
    store = SqlOutboxStore(f"sqlite:///{tmp_path}/x.db")
    with closing(sqlite3.connect(tmp_path / "x.db")) as tx:
        tx.execute("CREATE TABLE orders (id integer)")
        tx.execute("INSERT INTO orders VALUES (1)")
        with pytest.raises(ConfigurationError, match="call create_schema first"):
            store.add(made("id-1"), connection=tx)
    store.close()


class Foreign:
    """A connection of a driver that nobody knows."""

    def __init__(self, path: Path, **claims: Any) -> None:
        self._inner = sqlite3.connect(path)
        self.__dict__.update(claims)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_a_driver_that_is_not_known_is_taken_on_trust_once_its_dialect_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acemq_stores.sql.drivers._doubted", set())
    monkeypatch.setattr("tests.paramstyle", "qmark", raising=False)  # as PEP 249 has it
    database = f"sqlite:///{tmp_path}/x.db"
    create_schema(database)
    store = SqlOutboxStore(database, dialect="sqlite")
    with closing(Foreign(tmp_path / "x.db")) as tx:
        with pytest.raises(ConfigurationError, match="name their SQL with dialect="):
            SqlOutboxStore(database).add(made("id-1"), connection=tx)
        for id_ in ("id-1", "id-2"):
            store.add(made(id_), connection=tx)
        tx.commit()
    assert ids(database) == ["id-1", "id-2"]
    assert [text for text in caplog.messages if "taken on trust" in text] == [
        f"acemq: {__name__} is a driver the outbox does not know: that its connections open "
        "transactions by themselves is taken on trust"
    ]
    with (
        closing(Foreign(tmp_path / "x.db", autocommit=True)) as tx,
        pytest.raises(ConfigurationError, match="commit the record at once"),
    ):
        store.add(made("id-3"), connection=tx)
    store.close()


def test_what_is_no_connection_is_refused(store: SqlOutboxStore) -> None:
    with pytest.raises(ConfigurationError, match="not a str"):
        store.add(made("id-1"), connection="tx")


# ------------------------------------------------------------ commits that are late


@pytest.mark.server
def test_a_transaction_with_an_early_id_that_commits_late_is_not_passed_over(
    pg_store: SqlOutboxStore, postgres_database: str
) -> None:
    with closing(databases.opened(postgres_database)) as slow:
        pg_store.add(made("early"), connection=slow)
        pg_store.add(made("late"))
        rows = driven(pg_store.claim("relay", 10)).rows
        assert [row.record.id for row in rows] == ["late"]
        assert driven(pg_store.mark_published("relay", rows)) == 1
        slow.commit()
    rows = driven(pg_store.claim("relay", 10)).rows
    assert [row.record.id for row in rows] == ["early"]


@pytest.mark.server
def test_the_second_writer_of_a_key_waits_for_the_first_s_commit(
    pg_store: SqlOutboxStore, postgres_database: str
) -> None:
    with (
        closing(databases.opened(postgres_database)) as first,
        closing(databases.opened(postgres_database)) as second,
    ):
        pg_store.add(made("first", "k"), connection=first)
        second.execute("SET lock_timeout = '200ms'")
        pg_store.add(made("other key", "j"), connection=second)
        with pytest.raises(StoreError, match="LockNotAvailable"):
            pg_store.add(made("second", "k"), connection=second)
        second.rollback()
        unlocked = SqlOutboxStore(postgres_database, lock_key=False)
        unlocked.add(made("not in line", "k"), connection=second)
        second.commit()
        first.commit()
        unlocked.close()
    assert ids(postgres_database) == ["first", "not in line"]
