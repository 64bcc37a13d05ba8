"""Transactions on connections whose methods are coroutines.

psycopg's, aiosqlite's and SQLAlchemy's, each in its own way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import Any

from acemq_amqp.flavours.workers import WorkerThreads
from acemq_stores.sql.sqlalchemy_objects import is_sqlalchemy


@asynccontextmanager
async def lent(opened: Callable[[], Any]) -> AsyncIterator[Any]:
    """A connection for a while, from a coroutine function or from what gives a context manager."""
    given = opened()
    if not isinstance(given, Awaitable):
        async with given as connection:
            yield connection
        return
    connection = await given
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def in_transaction(connection: Any) -> AsyncIterator[None]:
    """Commits at the end, or undoes what was done where that raises."""
    if hasattr(connection, "transaction"):  # psycopg's
        async with connection.transaction():
            yield
        return
    if not is_sqlalchemy(connection) and not connection.in_transaction:
        # at once: one that reads first and then writes can fail with no wait
        await connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with suppress(Exception):  # closed by who was given it: what they failed with is told
            await connection.rollback()
        raise
    await connection.commit()


@asynccontextmanager
async def held(threads: WorkerThreads, lock: AbstractContextManager[None]) -> AsyncIterator[None]:
    """A lock that blocks while others have it, waited for in a thread."""
    entering = asyncio.ensure_future(threads.run(lock.__enter__))
    try:
        await asyncio.shield(entering)
    except asyncio.CancelledError:
        entering.add_done_callback(lambda entered: _given_back(entered, lock))
        raise
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


def _given_back(entered: asyncio.Future[None], lock: AbstractContextManager[None]) -> None:
    if not entered.cancelled() and entered.exception() is None:
        lock.__exit__(None, None, None)
