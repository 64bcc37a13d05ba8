"""Tables are made, brought up and checked; what is missing or strange is named."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from acemq_amqp import ConfigurationError, StoreError
from acemq_amqp.patterns.waiting import driven
from acemq_stores import SqlIdempotencyStore, SqlOutboxStore, create_schema, schema_ddl
from acemq_stores.sql import idempotency
from acemq_stores.sql.tables import IDEMPOTENCY
from tests.stores import databases


@pytest.fixture
def closing_stores() -> Iterator[list[SqlIdempotencyStore]]:
    stores: list[SqlIdempotencyStore] = []
    yield stores
    for store in stores:
        store.close()


def store_at(database: str, **options: object) -> SqlIdempotencyStore:
    return SqlIdempotencyStore(database, **options)  # type: ignore[arg-type]


def test_the_first_use_creates_and_the_second_leaves_alone(database: str) -> None:
    for expected in ("CLAIMED", "IN_PROGRESS"):
        store = store_at(database)
        assert driven(store.claim("id", expected)).name == expected
        store.close()


def test_create_false_names_what_is_missing_and_changes_nothing(database: str) -> None:
    store = store_at(database, create=False)
    with pytest.raises(ConfigurationError, match=r"'acemq_idempotency'.*is missing.*create_schema"):
        driven(store.claim("id"))
    create_schema(database, {"idempotency": "acemq_idempotency"})
    assert driven(store.claim("id")).name == "CLAIMED"
    store.close()


def test_create_false_names_an_older_version(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_schema(database)
    newer = dataclasses.replace(IDEMPOTENCY, steps=(*IDEMPOTENCY.steps, ()))
    monkeypatch.setattr(idempotency, "IDEMPOTENCY", newer)
    store = store_at(database, create=False)
    with pytest.raises(ConfigurationError, match="is of version 1, not 2"):
        driven(store.claim("id"))
    store.close()


def test_a_further_step_is_taken_and_the_data_stays(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_at(database)
    driven(store.first_time("kept"))
    store.close()
    step = ("ALTER TABLE {table} ADD COLUMN note text",)
    newer = dataclasses.replace(IDEMPOTENCY, steps=(*IDEMPOTENCY.steps, step))
    monkeypatch.setattr(idempotency, "IDEMPOTENCY", newer)
    store = store_at(database)
    assert driven(store.first_time("kept")) is False
    assert databases.rows(database, "SELECT note FROM acemq_idempotency") == [(None,)]
    assert databases.rows(database, "SELECT version FROM acemq_schema") == [(2,)]
    store.close()


def test_a_newer_table_is_refused(database: str) -> None:
    create_schema(database)
    databases.run(database, "UPDATE acemq_schema SET version = 7")
    store = store_at(database)
    with pytest.raises(ConfigurationError, match="version 7 and this library knows 1: use a newer"):
        driven(store.claim("id"))
    store.close()


def test_another_store_s_table_is_refused(database: str) -> None:
    create_schema(database)
    store = store_at(database, table="acemq_outbox")
    with pytest.raises(ConfigurationError, match="that of the outbox store: name another"):
        driven(store.claim("id"))
    store.close()


def test_a_table_that_is_none_of_ours_is_refused(database: str) -> None:
    create_schema(database)
    databases.run(database, "CREATE TABLE customers (id integer)")
    store = store_at(database, table="customers")
    with pytest.raises(ConfigurationError, match="that no store has made"):
        driven(store.claim("id"))
    store.close()


def test_a_table_that_was_dropped_under_a_running_store_is_named(database: str) -> None:
    store = store_at(database)
    driven(store.claim("id"))
    databases.run(database, "DROP TABLE acemq_idempotency")
    with pytest.raises(StoreError, match=r"acemq_idempotency.*call create_schema"):
        driven(store.claim("id"))
    store.close()


def test_tables_of_other_names_stand_beside_each_other(database: str) -> None:
    create_schema(database, {"idempotency": "billing_seen", "outbox": "billing_outbox"})
    create_schema(database, {"idempotency": "stock_seen"})
    one, other = store_at(database, table="billing_seen"), store_at(database, table="stock_seen")
    assert driven(one.first_time("id")) and driven(other.first_time("id"))
    one.close()
    other.close()


def test_the_printed_ddl_makes_what_the_stores_look_for(database: str) -> None:
    dialect = "sqlite" if database.startswith("sqlite") else "postgresql"
    databases.run(database, *schema_ddl(dialect).split(";\n"))
    store = store_at(database, create=False)
    outbox = SqlOutboxStore(database, create=False)
    assert driven(store.claim("id")).name == "CLAIMED"
    assert driven(outbox.status()).waiting == 0
    store.close()
    outbox.close()


@pytest.mark.server
def test_a_schema_of_postgresql_may_hold_the_tables(postgres_database: str) -> None:
    databases.run(postgres_database, "CREATE SCHEMA messaging")
    store = SqlOutboxStore(postgres_database, table="messaging.outbox")
    assert driven(store.claim("relay", 10)).rows == []
    assert databases.rows(postgres_database, "SELECT count(*) FROM messaging.outbox") == [(0,)]
    store.close()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:"])
def test_sqlite_in_memory_is_refused_with_a_way_out(url: str) -> None:
    with pytest.raises(ConfigurationError, match="in-memory stores"):
        SqlIdempotencyStore(url)


def test_a_callable_that_gives_sqlite_in_memory_is_refused() -> None:
    store = SqlIdempotencyStore(lambda: sqlite3.connect(":memory:"))
    with pytest.raises(ConfigurationError, match="in-memory stores"):
        driven(store.claim("id"))


@pytest.mark.parametrize(
    ("connect", "words"),
    [
        ("mysql://host/db", "cannot connect to 'mysql:'"),
        ("orders.db", "sqlite:///path"),
        ("sqlite://host/db", "three slashes"),
        (7, "an address or a callable"),
    ],
)
def test_what_is_no_address_is_refused_at_once(connect: object, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        SqlIdempotencyStore(connect)  # type: ignore[arg-type]


@pytest.mark.parametrize("call", [lambda: schema_ddl("oracle"), lambda: schema_ddl("Sqlite")])
def test_a_dialect_that_is_not_there_is_refused(call: object) -> None:
    with pytest.raises(ConfigurationError, match="they know sqlite, postgresql"):
        call()  # type: ignore[operator]


def test_a_kind_of_store_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no 'inbox' store"):
        create_schema(f"sqlite:///{tmp_path}/x.db", {"inbox": "x"})
