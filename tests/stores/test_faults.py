"""Databases that are gone, restarted, locked or read-only: each a clear outcome, nothing lost."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from acemq_amqp import StoreError
from acemq_amqp.patterns import Claim
from acemq_amqp.patterns.waiting import driven
from acemq_stores import SqlClaimCheckStore, SqlIdempotencyStore
from acemq_stores.sql import connecting, sources
from acemq_stores.sql.lockfile import LockFile
from tests.stores import databases
from tests.support.ports import free_port
from tests.support.postgres import Postgres


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores that wait for half a second."""
    monkeypatch.setattr(sources, "PATIENCE", 0.5)
    monkeypatch.setattr(connecting, "PATIENCE", 0.5)


# ------------------------------------------------------------ PostgreSQL


@pytest.mark.server
def test_after_a_restart_the_next_call_succeeds(own_postgres: Postgres) -> None:
    store = SqlIdempotencyStore(own_postgres.url)
    driven(store.claim("id", "one"))
    own_postgres.stop()
    own_postgres.boot()
    assert driven(store.claim("id", "two")) is Claim.IN_PROGRESS
    assert driven(store.confirm("id", "one")) is True
    store.close()


@pytest.mark.server
def test_a_server_killed_keeps_what_was_claimed(own_postgres: Postgres) -> None:
    store = SqlIdempotencyStore(own_postgres.url)
    assert driven(store.claim("id", "one")) is Claim.CLAIMED
    own_postgres.kill()
    own_postgres.boot()
    assert driven(store.claim("id", "two")) is Claim.IN_PROGRESS
    store.close()


@pytest.mark.server
def test_a_server_that_stays_away_is_told(own_postgres: Postgres, impatient: None) -> None:
    store = SqlIdempotencyStore(own_postgres.url)
    driven(store.claim("id", "one"))
    own_postgres.stop()
    with pytest.raises(StoreError, match=r"^acemq: the postgresql database of acemq_idempotency"):
        driven(store.claim("id", "two"))
    own_postgres.boot()
    store.close()


def test_a_server_that_is_not_there_is_told(impatient: None) -> None:
    store = SqlIdempotencyStore(f"postgresql://nobody@127.0.0.1:{free_port()}/none")
    with pytest.raises(StoreError, match="check that it runs and that its address"):
        driven(store.claim("id"))
    store.close()


@pytest.mark.server
def test_backends_that_were_terminated_are_replaced(postgres_database: str) -> None:
    store = SqlIdempotencyStore(postgres_database)
    driven(store.claim("id", "one"))
    databases.rows(
        postgres_database,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    assert driven(store.claim("id", "one")) is Claim.CLAIMED
    store.close()


@pytest.mark.server
def test_the_clock_is_the_database_s(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqlIdempotencyStore(postgres_database, claim_timeout=60)
    driven(store.claim("id", "one"))
    monkeypatch.setattr("time.time", lambda: 4e9)  # a host that is decades off
    assert driven(store.claim("id", "two")) is Claim.IN_PROGRESS
    assert driven(store.renew("id", "one")) is True
    store.close()


# ------------------------------------------------------------ ways to connect


@pytest.mark.server
@pytest.mark.parametrize("autocommit", [False, True])
def test_a_callable_may_give_connections(postgres_database: str, autocommit: bool) -> None:
    opened: list[psycopg.Connection[Any]] = []

    def connect() -> psycopg.Connection[Any]:
        opened.append(psycopg.connect(postgres_database, autocommit=autocommit))
        return opened[-1]

    store = SqlIdempotencyStore(connect)
    assert driven(store.claim("id", "one")) is Claim.CLAIMED
    assert driven(store.claim("id", "two")) is Claim.IN_PROGRESS
    assert len(opened) == 1
    assert databases.rows(postgres_database, "SELECT holder FROM acemq_idempotency") == [("one",)]
    opened[0].close()
    assert driven(store.claim("id", "two")) is Claim.IN_PROGRESS
    store.close()
    assert all(connection.closed for connection in opened)


@pytest.mark.server
def test_a_callable_may_lend_a_pool_s_connections(postgres_database: str) -> None:
    with ConnectionPool(postgres_database, min_size=1, max_size=1, open=True) as pool:
        store = SqlIdempotencyStore(pool.connection)
        assert driven(store.claim("id", "one")) is Claim.CLAIMED
        assert driven(store.confirm("id", "one")) is True
        store.close()
        assert pool.get_stats()["pool_available"] == 1


@pytest.mark.parametrize("isolation", [None, "DEFERRED", "IMMEDIATE"])
def test_a_callable_may_give_sqlite_connections(tmp_path: Path, isolation: Any) -> None:
    path = str(tmp_path / "given.db")
    store = SqlIdempotencyStore(lambda: sqlite3.connect(path, isolation_level=isolation))
    assert driven(store.claim("id", "one")) is Claim.CLAIMED
    assert driven(store.confirm("id", "one")) is True
    assert databases.rows(f"sqlite:///{path}", "SELECT done FROM acemq_idempotency") == [(1,)]


# ------------------------------------------------------------ SQLite


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program's write transaction."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def test_a_foreign_writer_is_waited_for_and_then_told(tmp_path: Path, impatient: None) -> None:
    store = SqlIdempotencyStore(f"sqlite:///{tmp_path}/x.db")
    driven(store.claim("id", "one"))
    with locked(tmp_path / "x.db"), pytest.raises(StoreError, match="BEGIN IMMEDIATE"):
        fresh = SqlIdempotencyStore(f"sqlite:///{tmp_path}/x.db")
        driven(fresh.claim("id", "two"))
    assert driven(store.claim("id", "two")) is Claim.IN_PROGRESS
    store.close()


def test_the_lock_file_is_waited_for_and_then_told(tmp_path: Path) -> None:
    lock = LockFile(str(tmp_path / "x.db"))
    other = LockFile(str(tmp_path / "x.db"))
    with (
        lock.held(1),
        pytest.raises(StoreError, match="the database is locked"),
        other.held(0.05),
    ):
        raise AssertionError("two hold it")


def test_the_lock_file_is_held_by_one_thread_at_a_time(tmp_path: Path) -> None:
    holders = most = 0

    def hold() -> None:
        nonlocal holders, most
        for _ in range(50):
            with LockFile(str(tmp_path / "x.db")).held(30):
                holders += 1
                most = max(most, holders)
                holders -= 1

    threads = [threading.Thread(target=hold) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    store = SqlIdempotencyStore(f"sqlite:///{tmp_path}/none/x.db")
    with pytest.raises(StoreError, match="unable to open database file"):
        driven(store.claim("id"))


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("this is a text, and long enough to be looked at as a database")
    store = SqlIdempotencyStore(f"sqlite:///{tmp_path}/x.db")
    with pytest.raises(StoreError, match="file is not a database"):
        driven(store.claim("id"))


def test_a_step_of_sqlite_s_clock_ends_a_lease_early_and_its_holder_is_told(
    tmp_path: Path,
) -> None:
    database = f"sqlite:///{tmp_path}/x.db"
    store = SqlIdempotencyStore(database, claim_timeout=60)
    driven(store.claim("id", "one"))
    databases.run(database, "UPDATE acemq_idempotency SET until = until - 3600")
    assert driven(store.claim("id", "two")) is Claim.CLAIMED
    assert driven(store.confirm("id", "one")) is False
    assert driven(store.confirm("id", "two")) is True
    store.close()


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE filler (id integer)")

    def opened() -> sqlite3.Connection:
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA max_page_count = 20")
        return connection

    store = SqlClaimCheckStore(opened)
    with pytest.raises(StoreError, match="database or disk is full"):
        store.put(b"x" * 200_000)
    assert list(store.listing()) == []
    assert store.get(store.put(b"small")) == b"small"
    store.close()
