"""Inbox: a handler that ends the transaction itself is told, and its message is not lost."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import aiosqlite
import psycopg
import psycopg2
import pytest
import sqlalchemy
from sqlalchemy.orm import sessionmaker
from sqlalchemy.pool import NullPool

from acemq_amqp import Message
from acemq_amqp.ack import AckKind
from acemq_amqp.patterns import TransactionEnded, transactional
from tests.contract.waiting import until
from tests.stores import databases
from tests.stores.databases import path_of
from tests.stores.foreign import engine_url
from tests.stores.test_inbox import done, message
from tests.stores.test_inbox_connections import note, note_awaited
from tests.support.eventually import eventually

Handler = Callable[[Message, Any], Any]


@pytest.fixture
def work(database: str) -> str:
    """A database with a table to work on, and none of ours."""
    databases.run(database, "CREATE TABLE done (id text)")
    return database


@pytest.fixture(params=["address", "driver", "session"])
def connect(request: pytest.FixtureRequest, work: str) -> Any:
    if request.param == "address":
        return work
    if request.param == "session":
        return sessionmaker(sqlalchemy.create_engine(engine_url(work), poolclass=NullPool))
    if work.startswith("sqlite"):
        return functools.partial(sqlite3.connect, path_of(work))
    return functools.partial(psycopg2.connect, work)


@pytest.fixture
def handling(connect: Any) -> Iterator[Callable[[Handler], Any]]:
    """Makes handlers; what they hold is closed."""
    made: list[Any] = []

    def make(handler: Handler) -> Any:
        made.append(transactional(connect, handler))
        return made[-1]

    yield make
    for each in made:
        each.close()


def end_by(ending: str) -> Handler:
    def handler(message: Message, tx: Any) -> None:
        note(message, tx)
        if ending == "statement":
            end = sqlalchemy.text("COMMIT") if isinstance(tx, sqlalchemy.orm.Session) else "COMMIT"
            (tx.cursor() if hasattr(tx, "cursor") else tx).execute(end)
        else:
            getattr(tx, ending)()

    return handler


@pytest.mark.parametrize("ending", ["commit", "rollback", "close"])
def test_who_ends_the_transaction_is_told_and_the_message_comes_again(
    handling: Callable[[Handler], Any], work: str, ending: str
) -> None:
    # psycopg's own word where it refuses by itself
    with pytest.raises((TransactionEnded, psycopg.ProgrammingError)):
        handling(end_by(ending))(message())
    databases.run(work, "DELETE FROM done")
    again = handling(note)
    # A database sees a moment later that a session was closed, and holds its locks until then.
    eventually(lambda: again(message()).kind is AckKind.ACCEPT, "the message to be handled")
    assert again(message()).kind is AckKind.ACCEPT
    assert done(work) == ["id-1"]


def test_one_that_commits_and_then_fails_comes_again(
    handling: Callable[[Handler], Any], work: str
) -> None:
    def fail(message: Message, tx: Any) -> None:
        note(message, tx)
        tx.commit()
        raise LookupError("no such order")

    with pytest.raises((TransactionEnded, psycopg.ProgrammingError, LookupError)):
        handling(fail)(message())
    databases.run(work, "DELETE FROM done")
    handling(note)(message())
    assert done(work) == ["id-1"]


def test_a_with_around_sqlite_s_connection_commits_nothing(tmp_path: Any) -> None:
    database = f"sqlite:///{tmp_path}/x.db"
    databases.run(database, "CREATE TABLE done (id text)")

    def handler(message: Message, tx: Any) -> None:
        with tx:
            note(message, tx)

    with pytest.raises(TransactionEnded, match=r"called for COMMIT .* 'with tx:' commits, too"):
        transactional(database, handler)(message())
    assert done(database) == []


@pytest.mark.server
def test_a_commit_by_statement_is_found_on_postgresql(postgres_database: str) -> None:
    databases.run(postgres_database, "CREATE TABLE done (id text)")
    handle = transactional(postgres_database, end_by("statement"))
    with pytest.raises(TransactionEnded, match="'id-1' committed, rolled back, closed or broke"):
        handle(message())
    handle.close()  # type: ignore[attr-defined]


@pytest.mark.server
def test_a_failed_statement_that_was_passed_over_is_no_success(postgres_database: str) -> None:
    def handler(message: Message, tx: Any) -> None:
        try:
            tx.execute("INSERT INTO nowhere VALUES (1)")
        except psycopg.Error:
            return

    handle = transactional(postgres_database, handler)
    with pytest.raises(TransactionEnded):
        handle(message())
    handle.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("ending", ["commit", "rollback", "close"])
async def test_so_it_is_on_awaited_connections(work: str, ending: str) -> None:
    async def handler(message: Message, tx: Any) -> None:
        await note_awaited(message, tx)
        await getattr(tx, ending)()

    connect: Any = functools.partial(psycopg.AsyncConnection.connect, work)
    if work.startswith("sqlite"):

        async def opened() -> Any:
            return await aiosqlite.connect(path_of(work))

        connect = opened
    handle = transactional(connect, handler)
    with pytest.raises((TransactionEnded, psycopg.ProgrammingError)):
        await handle(message())
    handle.close()  # type: ignore[attr-defined]
    databases.run(work, "DELETE FROM done")
    again = transactional(connect, note_awaited)

    async def handled() -> bool:
        return (await again(message())).kind is AckKind.ACCEPT

    await until(handled, "the message to be handled")
    again.close()  # type: ignore[attr-defined]
    assert done(work) == ["id-1"]
