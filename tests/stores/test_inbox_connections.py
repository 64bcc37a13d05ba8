"""Inbox: transactions that other drivers and frameworks open."""

from __future__ import annotations

import asyncio
import functools
import sqlite3
import threading
from typing import Any

import aiosqlite
import psycopg
import psycopg2
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker
from sqlalchemy.pool import NullPool

from acemq_amqp import Message, reject
from acemq_amqp.ack import Ack, AckKind, accept
from acemq_amqp.flavours.workers import WorkerThreads
from acemq_amqp.patterns import transactional
from acemq_stores.sql.awaited import held
from tests.stores import databases
from tests.stores.databases import path_of
from tests.stores.foreign import engine_url
from tests.stores.test_inbox import done, message


@pytest.fixture
def work(database: str) -> str:
    """A database with a table to work on, and none of ours."""
    databases.run(database, "CREATE TABLE done (id text)")
    return database


def statement(tx: Any, id_: str) -> Any:
    """An INSERT as the connection's users write it."""
    kinds = type(tx).__module__
    if kinds.startswith("sqlalchemy"):
        return (sqlalchemy.text("INSERT INTO done VALUES (:id)"), {"id": id_})
    mark = "?" if "sqlite" in kinds else "%s"
    return (f"INSERT INTO done VALUES ({mark})", (id_,))


def note(message: Message, tx: Any) -> Ack:
    place = tx.cursor() if hasattr(tx, "cursor") else tx
    place.execute(*statement(tx, message.envelope.id))
    return accept() if message.envelope.id != "bad" else reject("x")


async def note_awaited(message: Message, tx: Any) -> Ack:
    await tx.execute(*statement(tx, message.envelope.id))
    return accept() if message.envelope.id != "bad" else reject("x")


@pytest.fixture(params=["sqlalchemy", "session", "driver"])
def connect(request: pytest.FixtureRequest, work: str) -> Any:
    if request.param == "driver":
        if work.startswith("sqlite"):
            return functools.partial(sqlite3.connect, path_of(work))
        return functools.partial(psycopg2.connect, work)
    engine = sqlalchemy.create_engine(engine_url(work), poolclass=NullPool)
    return engine.connect if request.param == "sqlalchemy" else sessionmaker(engine)


def test_a_plain_handler_works_on_what_they_open(connect: Any, work: str) -> None:
    handle = transactional(connect, note)
    kinds = [handle(message(id_)).kind for id_ in ("id-1", "id-1", "bad")]
    assert kinds == [AckKind.ACCEPT, AckKind.ACCEPT, AckKind.REJECT]
    assert done(work) == ["id-1"]
    handle.close()  # type: ignore[attr-defined]


@pytest.fixture(params=["address", "sqlalchemy", "session", "driver"])
def connect_awaited(request: pytest.FixtureRequest, work: str) -> Any:
    if request.param == "address":
        return work
    if request.param == "driver":
        return functools.partial(_opened, work)
    engine = create_async_engine(engine_url(work, awaited=True), poolclass=NullPool)
    return engine.connect if request.param == "sqlalchemy" else async_sessionmaker(engine)


async def _opened(work: str) -> Any:
    if work.startswith("sqlite"):
        return await aiosqlite.connect(path_of(work))
    return await psycopg.AsyncConnection.connect(work)


async def test_an_awaited_handler_works_on_what_they_open(connect_awaited: Any, work: str) -> None:
    handle = transactional(connect_awaited, note_awaited)
    answers = [await handle(message(id_)) for id_ in ("id-1", "id-1", "bad")]
    assert [each.kind for each in answers] == [AckKind.ACCEPT, AckKind.ACCEPT, AckKind.REJECT]
    assert done(work) == ["id-1"]
    handle.close()  # type: ignore[attr-defined]


async def test_awaited_repeats_at_once_are_done_once(connect_awaited: Any, work: str) -> None:
    handle = transactional(connect_awaited, note_awaited)
    answers = await asyncio.gather(*(handle(message()) for _ in range(8)))
    kinds = {each.kind for each in answers}
    assert kinds <= {AckKind.ACCEPT, AckKind.IN_PROGRESS} and AckKind.ACCEPT in kinds
    assert done(work) == ["id-1"]
    handle.close()  # type: ignore[attr-defined]


async def test_a_cancelled_handler_undoes_all_of_it(connect_awaited: Any, work: str) -> None:
    inside = asyncio.Event()

    async def hold(message: Message, tx: Any) -> None:
        await note_awaited(message, tx)
        inside.set()
        await asyncio.Event().wait()

    holding = transactional(connect_awaited, hold)
    running = asyncio.create_task(holding(message()))
    await inside.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert done(work) == []
    handle = transactional(connect_awaited, note_awaited)
    assert (await handle(message())).kind is AckKind.ACCEPT
    handle.close()  # type: ignore[attr-defined]
    holding.close()  # type: ignore[attr-defined]


class Lock:
    """One that is got when the test says so."""

    def __init__(self) -> None:
        self.asked, self.got, self.given_back = (threading.Event() for _ in range(3))

    def __enter__(self) -> None:
        self.asked.set()
        assert self.got.wait(30)

    def __exit__(self, *raised: object) -> None:
        self.given_back.set()


async def test_who_is_cancelled_while_it_waits_for_sqlite_s_lock_does_not_keep_it() -> None:
    threads, lock = WorkerThreads(1, "test-lock"), Lock()

    async def waiting() -> None:
        async with held(threads, lock):
            pytest.fail("cancelled, and goes on")

    running = asyncio.create_task(waiting())
    await asyncio.to_thread(lock.asked.wait, 30)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not lock.given_back.is_set()
    lock.got.set()
    assert await asyncio.to_thread(lock.given_back.wait, 30)
    threads.stop()
