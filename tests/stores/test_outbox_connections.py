"""Records on the connections of every driver and framework that the stores know."""

from __future__ import annotations

from typing import Any

import pymysql
import pytest

from acemq_amqp import ConfigurationError, StoreError
from acemq_stores import SqlOutboxStore, create_schema
from tests.stores.foreign import AWAITED, PLAIN, lent, lent_awaited
from tests.stores.test_outbox_callers import ids, made


def _cases(table: dict[str, list[str]]) -> list[Any]:
    server = [pytest.mark.server]
    return [
        pytest.param(kind, way, marks=server if kind == "postgresql" else [], id=f"{kind}-{way}")
        for kind, ways in table.items()
        for way in ways
    ]


@pytest.fixture
def database(request: pytest.FixtureRequest, kind: str, tmp_path: Any) -> str:
    if kind == "postgresql":
        return str(request.getfixturevalue("postgres_database"))
    return f"sqlite:///{tmp_path}/x.db"


@pytest.fixture
def store(database: str) -> Any:
    create_schema(database)
    store = SqlOutboxStore(database)
    yield store
    store.close()


@pytest.mark.parametrize(("kind", "way"), _cases(PLAIN))
def test_a_record_is_part_of_the_caller_s_transaction(
    store: SqlOutboxStore, database: str, way: str
) -> None:
    with lent(way, database) as tx:
        store.add(made("undone", "k"), connection=tx)
        tx.rollback()
        store.add_many([made("id-1", "k"), made("id-1"), made("id-2")], connection=tx)
        assert ids(database) == []
        tx.commit()
    assert ids(database) == ["id-1", "id-2"]


@pytest.mark.parametrize(("kind", "way"), _cases(PLAIN))
def test_a_plain_connection_that_commits_by_itself_is_refused(
    store: SqlOutboxStore, database: str, way: str
) -> None:
    with (
        lent(way, database, autocommit=True) as tx,
        pytest.raises(ConfigurationError, match="commit the record at once"),
    ):
        store.add(made("id-1", "k"), connection=tx)
    assert ids(database) == []


@pytest.mark.parametrize(("kind", "way"), _cases(AWAITED))
async def test_a_record_is_part_of_a_transaction_that_is_awaited(
    store: SqlOutboxStore, database: str, way: str
) -> None:
    async with lent_awaited(way, database) as tx:
        await store.add(made("undone", "k"), connection=tx)
        await tx.rollback()
        await store.add_many([made("id-1", "k"), made("id-1"), made("id-2")], connection=tx)
        assert ids(database) == []
        await tx.commit()
    assert ids(database) == ["id-1", "id-2"]


@pytest.mark.parametrize(("kind", "way"), _cases(AWAITED))
async def test_an_awaited_connection_that_commits_by_itself_is_refused(
    store: SqlOutboxStore, database: str, way: str
) -> None:
    async with lent_awaited(way, database, autocommit=True) as tx:
        with pytest.raises(ConfigurationError, match="commit the record at once"):
            await store.add(made("id-1", "k"), connection=tx)
    assert ids(database) == []


@pytest.mark.server
@pytest.mark.parametrize("kind", ["postgresql"])
@pytest.mark.parametrize("way", PLAIN["postgresql"])
def test_a_failed_transaction_is_told_alike_and_a_late_duplicate_does_not_fail_it(
    store: SqlOutboxStore, database: str, way: str
) -> None:
    with lent(way, database) as tx:
        _execute(tx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        _execute(tx, "SELECT 1 FROM acemq_outbox")  # the snapshot is taken
        store.add(made("id-1"))
        store.add_many([made("id-1"), made("id-2")], connection=tx)
        with pytest.raises(Exception, match="division by zero"):
            _execute(tx, "SELECT 1 / 0")
        with pytest.raises(StoreError, match="roll it back, and begin again"):
            store.add(made("id-3"), connection=tx)
        tx.rollback()
    assert ids(database) == ["id-1"]


def _execute(tx: Any, sql: str) -> None:
    if hasattr(tx, "cursor"):
        with tx.cursor() as cursor:
            cursor.execute(sql)
    else:
        (tx.connection() if hasattr(tx, "get_bind") else tx).exec_driver_sql(sql)


@pytest.mark.parametrize(("kind", "way"), _cases(PLAIN))
def test_the_table_is_made_at_first_use_on_a_connection_of_the_store_s_own(
    database: str, way: str
) -> None:
    store = SqlOutboxStore(database)
    with lent(way, database) as tx:
        if way == "django" and database.startswith("sqlite"):
            # its transaction was begun before anything was written, and cannot be looked into
            with pytest.raises(ConfigurationError, match="call create_schema first"):
                store.add(made("id-1"), connection=tx)
            create_schema(database)
        store.add(made("id-1"), connection=tx)
        tx.commit()
    assert ids(database) == ["id-1"]
    store.close()


def test_mysql_is_refused_by_name() -> None:
    store = SqlOutboxStore("sqlite:///x.db")
    with pytest.raises(
        ConfigurationError, match="speak no SQL for 'mysql'; they know sqlite, post"
    ):
        store.add(made("id-1"), connection=pymysql.Connection(defer_connect=True))
    store.close()
