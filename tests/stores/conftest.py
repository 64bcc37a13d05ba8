"""Databases for the stores' tests: each test has one of its own, empty.

``database`` is the address of one on SQLite, then of one on PostgreSQL. ``call`` runs a store's
coroutine on an event loop, then as the blocking flavour does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from acemq_amqp.patterns.waiting import driven
from tests.support.postgres import Postgres, fresh_database, postgres_server

T = TypeVar("T")
Call = Callable[[Coroutine[Any, Any, Any]], Any]

ENGINES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.server)]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL for this run."""
    with postgres_server() as address:
        yield address


@pytest.fixture(params=ENGINES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/stores.db"
        return
    with fresh_database(request.getfixturevalue("postgres")) as address:
        yield address


@pytest.fixture
def postgres_database(postgres: str) -> Iterator[str]:
    """The address of an empty database of PostgreSQL."""
    with fresh_database(postgres) as address:
        yield address


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A server that the test may stop, kill and start again."""
    server = Postgres.start(durable=True)
    yield server
    server.close()


@pytest.fixture(params=["async", "blocking"])
def call(request: pytest.FixtureRequest) -> Call:
    """Runs a coroutine of a store as one of the flavours does."""
    return asyncio.run if request.param == "async" else driven
