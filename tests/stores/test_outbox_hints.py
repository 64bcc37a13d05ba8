"""Commits that tell the relays which wait: hints, and what becomes of a dead listener."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from queue import SimpleQueue
from typing import Any

import psycopg
import pytest

from acemq_amqp import ConfigurationError
from acemq_amqp.patterns import record
from acemq_amqp.patterns.waiting import driven
from acemq_stores import SqlOutboxStore, create_schema
from acemq_stores.sql.listening import channel_of
from tests.contract.api import Api, holds
from tests.contract.conftest import (  # noqa: F401 - fixtures
    api,
    contract_vhost,
    flavour,
    stand,
)
from tests.patterns.relays import make_relay
from tests.stores import databases
from tests.stores.test_outbox_callers import made
from tests.support.eventually import eventually

_LISTENERS = "FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"


@pytest.fixture
def store(postgres_database: str) -> Iterator[SqlOutboxStore]:
    create_schema(postgres_database)
    store = SqlOutboxStore(postgres_database, notify=True)
    yield store
    store.close()


class Hints:
    """What a listener says."""

    def __init__(self, store: SqlOutboxStore) -> None:
        self._heard: SimpleQueue[None] = SimpleQueue()
        stop = store.listen(lambda: self._heard.put(None))
        assert stop is not None
        self.stop = stop

    def next(self) -> None:
        self._heard.get(timeout=30)

    def silent(self) -> bool:
        return self._heard.empty()


@pytest.fixture
def hints(store: SqlOutboxStore) -> Iterator[Hints]:
    hints = Hints(store)
    hints.next()  # it listens
    yield hints
    hints.stop()


def killed(database: str) -> None:
    """Ends the backend of the listener; there is one again when this returns."""
    before = databases.rows(database, f"SELECT pid {_LISTENERS}")
    assert len(before) == 1
    databases.rows(database, f"SELECT pg_terminate_backend(pid) {_LISTENERS}")
    eventually(
        lambda: databases.rows(database, f"SELECT pid {_LISTENERS}") not in ([], before),
        "a listener again",
    )


pytestmark = pytest.mark.server


def test_a_commit_is_told_and_an_undone_transaction_is_not(
    store: SqlOutboxStore, hints: Hints, postgres_database: str
) -> None:
    with closing(databases.opened(postgres_database)) as tx:
        store.add(made("id-1", "k"), connection=tx)
        tx.rollback()
        store.add_many([made("id-2", "k"), made("id-3")], connection=tx)
        assert hints.silent()
        tx.commit()
    hints.next()
    store.add(made("id-4"))
    hints.next()


async def test_so_is_one_on_an_asynchronous_connection(
    store: SqlOutboxStore, hints: Hints, postgres_database: str
) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_database) as tx:
        await store.add(made("id-1"), connection=tx)
    await asyncio.to_thread(hints.next)


def test_a_listener_that_was_killed_is_made_again_and_hints_at_once(
    store: SqlOutboxStore, hints: Hints, postgres_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "acemq_stores"):
        killed(postgres_database)
        hints.next()  # whatever was committed meanwhile was not told
    assert [text.split(";")[0] for text in caplog.messages] == [
        "acemq: the outbox's listener has no connection",
        "acemq: the outbox's listener has a connection again",
    ]
    store.add(made("id-1"))
    hints.next()


def test_without_notify_nothing_is_told(
    hints: Hints, store: SqlOutboxStore, postgres_database: str
) -> None:
    silent = SqlOutboxStore(postgres_database)
    assert silent.listen(lambda: None) is None
    silent.add(made("id-1"))
    silent.close()
    databases.run(postgres_database, f"NOTIFY {channel_of('acemq_outbox')}")
    hints.next()
    assert hints.silent()


def test_another_outbox_has_its_own_channel(postgres_database: str) -> None:
    assert len({channel_of("a"), channel_of("b"), channel_of("s.a")}) == 3


def test_what_has_nowhere_to_listen_is_refused(postgres_database: str) -> None:
    for connect, options in [
        ("sqlite:///x.db", {"notify": True}),
        (lambda: sqlite3.connect("x.db"), {"notify": True}),
        (lambda: psycopg.connect(postgres_database), {"notify": True}),
        (postgres_database, {"notify": True, "listen": "sqlite:///x.db"}),
        (postgres_database, {"listen": postgres_database}),
    ]:
        with pytest.raises(ConfigurationError, match="notify=True"):
            SqlOutboxStore(connect, **options)  # type: ignore[arg-type]


# ------------------------------------------------------------ relays


@pytest.fixture
def pooled(postgres_database: str) -> Iterator[SqlOutboxStore]:
    """A store that connects by one way and listens by another."""
    create_schema(postgres_database)
    store = SqlOutboxStore(
        lambda: psycopg.connect(postgres_database), notify=True, listen=postgres_database
    )
    yield store
    store.close()


async def test_a_relay_that_never_polls_publishes_what_was_committed(
    api: Api,  # noqa: F811
    pooled: SqlOutboxStore,
    postgres_database: str,
) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    relay = make_relay(api, mq, pooled, interval=3600)
    await relay.start()
    await _committed(mq, queue, postgres_database, pooled, 1)
    await asyncio.to_thread(killed, postgres_database)
    await _committed(mq, queue, postgres_database, pooled, 2)
    await relay.close()
    nobody = f"SELECT count(*) {_LISTENERS}"
    await asyncio.to_thread(
        eventually, lambda: databases.rows(postgres_database, nobody) == [(0,)], "no listener"
    )


async def _committed(
    mq: Any, queue: str, database: str, store: SqlOutboxStore, number: int
) -> None:
    with closing(databases.opened(database)) as tx:
        store.add(record(mq, "", queue, number, ordering_key="k"), connection=tx)
        tx.commit()
    await holds(mq, queue, number)
    await asyncio.to_thread(
        eventually, lambda: not driven(store.status()).waiting, "marked as published"
    )
