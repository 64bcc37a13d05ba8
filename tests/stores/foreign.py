"""Connections of other drivers and frameworks, opened as their users do.

A way is the name of one; ``lent`` gives the object to write with, ``autocommitting`` one that
commits each statement by itself, both until their context ends.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any

import aiosqlite
import django
import psycopg
import psycopg2
import sqlalchemy
from django.conf import settings
from django.db import ConnectionHandler
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from tests.stores.databases import path_of

PLAIN = {
    "sqlite": ["sqlite3", "sqlalchemy", "session", "django"],
    "postgresql": ["psycopg", "psycopg2", "sqlalchemy", "sqlalchemy psycopg2", "session", "django"],
}
AWAITED = {
    "sqlite": ["aiosqlite", "sqlalchemy", "session"],
    "postgresql": ["psycopg", "sqlalchemy", "session"],
}


def engine_url(database: str, way: str = "", *, awaited: bool = False) -> str:
    """The address as SQLAlchemy spells it."""
    if database.startswith("sqlite"):
        return f"sqlite{'+aiosqlite' * awaited}:///{path_of(database)}"
    driver = "psycopg2" if "psycopg2" in way else "psycopg"
    return database.replace("postgresql:", f"postgresql+{driver}:")


@contextmanager
def lent(way: str, database: str, *, autocommit: bool = False) -> Iterator[Any]:
    """A plain one."""
    if way in ("sqlalchemy", "sqlalchemy psycopg2", "session"):
        options = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
        engine = sqlalchemy.create_engine(engine_url(database, way), poolclass=NullPool, **options)
        with Session(engine) if way == "session" else engine.connect() as given:
            yield given
    elif way == "django":
        with closing(_django(database)) as connection:
            connection.set_autocommit(autocommit)
            yield connection
    else:
        with closing(_driver_s(way, database, autocommit)) as connection:
            yield connection


def _driver_s(way: str, database: str, autocommit: bool) -> Any:
    if way == "sqlite3":
        return sqlite3.connect(
            path_of(database), isolation_level=None if autocommit else "DEFERRED"
        )
    connection: Any = (psycopg2 if way == "psycopg2" else psycopg).connect(database)
    connection.autocommit = autocommit
    return connection


def _django(database: str) -> Any:
    if not settings.configured:
        settings.configure()
        django.setup()
    parsed = sqlalchemy.make_url(database)
    told = (
        {"ENGINE": "django.db.backends.sqlite3", "NAME": path_of(database)}
        if database.startswith("sqlite")
        else {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parsed.database,
            "USER": parsed.username,
            "HOST": parsed.host,
            "PORT": parsed.port,
        }
    )
    return ConnectionHandler({"default": told})["default"]


@asynccontextmanager
async def lent_awaited(way: str, database: str, *, autocommit: bool = False) -> AsyncIterator[Any]:
    """One whose methods are coroutines."""
    if way in ("sqlalchemy", "session"):
        options = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
        engine = create_async_engine(
            engine_url(database, awaited=True), poolclass=NullPool, **options
        )
        async with AsyncSession(engine) if way == "session" else engine.connect() as given:
            yield given
        await engine.dispose()
    elif way == "aiosqlite":
        level: Any = None if autocommit else ""
        async with aiosqlite.connect(path_of(database), isolation_level=level) as connection:
            yield connection
    else:
        async with await psycopg.AsyncConnection.connect(
            database, autocommit=autocommit
        ) as connection:
            yield connection
