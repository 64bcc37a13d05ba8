"""A relay on a real store: no lock while the broker is waited for, and no step at which it may fail
that leaves a record behind."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest

from acemq_amqp import StoreError
from acemq_amqp.core.observer import Observing
from acemq_amqp.flavours.threads import ThreadWork
from acemq_amqp.patterns import OutboxRecord
from acemq_amqp.patterns.relaying import Relaying
from acemq_amqp.patterns.waiting import driven
from acemq_stores import SqlOutboxStore
from tests.stores import databases


def made(id_: str, key: str = "") -> OutboxRecord:
    return OutboxRecord(id_, "events", "order.placed", b"{}", "application/json", b"", key)


def relay(store: Any, send: Callable[[str], None]) -> Relaying:
    async def sending(record: OutboxRecord) -> None:
        send(record.id)

    return Relaying(
        ThreadWork(), sending, store, Observing(None), interval=0.01, batch=100, width=1
    )


# ------------------------------------------------------------ locks


@pytest.mark.parametrize("given", ["an address", "a callable"])
def test_nothing_is_locked_while_the_broker_is_waited_for(database: str, given: str) -> None:
    connect: Any = database if given == "an address" else lambda: databases.opened(database)
    store = SqlOutboxStore(connect)
    store.add_many([made("keyed", "k"), made("free")])
    seen: list[str] = []

    def send(id_: str) -> None:
        assert_nothing_is_held(database)
        seen.append(id_)

    assert driven(relay(store, send).sweep()) == 2
    assert sorted(seen) == ["free", "keyed"]
    store.close()


def assert_nothing_is_held(database: str) -> None:
    """Others may write at once, the rows that are being sent too."""
    touch = "UPDATE acemq_outbox SET error = error"
    if database.startswith("sqlite"):
        with closing(sqlite3.connect(databases.path_of(database), timeout=0)) as connection:
            connection.execute(touch)
            connection.rollback()
        return
    with closing(psycopg.connect(database)) as connection:
        connection.execute("SET lock_timeout = 1")
        connection.execute(touch)
        open_ones = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
        mine = " AND datname = current_database() AND pid <> pg_backend_pid()"
        row = connection.execute(open_ones + mine).fetchone()
        assert row == (0,)
        connection.rollback()


# ------------------------------------------------------------ failures


class Failing:
    """A store that fails once, at the call of that number: before it has done it, or after."""

    def __init__(self, store: SqlOutboxStore, number: int, late: bool) -> None:
        self._store, self._left, self._late = store, number, late
        self.lease = store.lease

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        async def call(*arguments: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._late:
                raise StoreError("acemq: gone")
            answer = await method(*arguments)
            if self._left == 0:
                raise StoreError("acemq: gone, and who knows what became of it")
            return answer

        return call


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(1, 7))
def test_wherever_a_call_fails_every_record_is_sent_in_its_order(
    database: str, number: int, late: bool
) -> None:
    store = SqlOutboxStore(database)
    records = [made("a-1", "a"), made("a-2", "a"), made("b-1", "b"), made("free")]
    store.add_many(records)
    sent: list[str] = []
    relaying = relay(Failing(store, number, late), sent.append)
    for _ in range(4):
        try:
            driven(relaying.sweep())
        except StoreError:
            continue
    assert driven(relaying.close(5))
    assert driven(store.status()).waiting == 0
    assert sorted(set(sent)) == sorted(each.id for each in records)
    assert sent.index("a-1") < sent.index("a-2")
    store.close()
