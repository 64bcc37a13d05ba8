"""``acemq outbox`` on SQLite and PostgreSQL: what was set aside is listed, released, dropped."""

from __future__ import annotations

import pytest

from acemq_amqp.patterns import OutboxRecord
from acemq_amqp.patterns.waiting import driven
from acemq_stores import SqlOutboxStore
from tests.cli.conftest import Acemq


@pytest.fixture
def words(database: str) -> list[str]:
    """An outbox with two records set aside, one that waits and one that was sent."""
    store = SqlOutboxStore(database, max_attempts=1)
    store.add_many([OutboxRecord(f"m-{n}", "shop", f"key.{n}", b"{}") for n in range(1, 5)])
    rows = driven(store.claim("relay", 10)).rows
    for row in rows[:2]:
        assert driven(store.record_failure("relay", row, "refused: no\nroute"))
    driven(store.mark_published("relay", rows[2:3]))
    driven(store.leave("relay", rows))
    store.close()
    return ["--database", database]


def test_status_lists_what_was_set_aside_and_exits_1(acemq: Acemq, words: list[str]) -> None:
    ended = acemq("outbox", "status", *words)
    assert (ended.code, ended.err) == (1, "")
    assert "1 record waits" in ended.out and "2 were set aside" in ended.out
    assert "m-1" in ended.out and "shop key.1" in ended.out and "m-3" not in ended.out
    told = acemq("outbox", "status", "--json", *words)
    assert (told.data["waiting"], told.data["set_aside"]) == (1, 2)
    assert [each["id"] for each in told.data["records"]] == ["m-1", "m-2"]
    assert told.data["records"][0]["error"] == "refused: no\nroute"


def test_retry_releases_one_by_its_id_and_then_all(acemq: Acemq, words: list[str]) -> None:
    assert acemq("outbox", "retry", "m-2", *words).out == "1 record released\n"
    assert acemq("outbox", "status", "--json", *words).data["waiting"] == 2
    assert acemq("outbox", "retry", "--all", "--json", *words).data == {"released": 1}
    ended = acemq("outbox", "status", "--json", *words)
    assert (ended.code, ended.data["waiting"], ended.data["set_aside"]) == (0, 3, 0)


def test_retry_of_nothing_or_a_stranger_is_refused(acemq: Acemq, words: list[str]) -> None:
    assert acemq("outbox", "retry", *words).code == 2
    ended = acemq("outbox", "retry", "m-3", *words)
    assert ended.code == 2 and "m-3 was not set aside" in ended.err


def test_purge_removes_what_was_sent_or_drops_what_is_named(acemq: Acemq, words: list[str]) -> None:
    assert acemq("outbox", "purge", "--older-than", "1d", *words).out == "0 records removed\n"
    assert acemq("outbox", "purge", *words).out == "1 record removed\n"
    assert acemq("outbox", "purge", "--drop", "m-1", "--yes", *words).out == "1 record dropped\n"
    left = acemq("outbox", "status", "--json", *words).data
    assert (left["waiting"], left["set_aside"]) == (1, 1)


def test_a_database_without_an_outbox_is_told_and_gets_none(acemq: Acemq, database: str) -> None:
    if database.startswith("sqlite"):
        open(database.removeprefix("sqlite:///"), "w").close()
    for _ in range(2):
        ended = acemq("outbox", "status", "--database", database)
        assert ended.code == 2 and "'acemq_outbox' of the outbox store is missing" in ended.err


def test_status_tells_of_records_that_are_refused_again_and_again(
    acemq: Acemq, database: str
) -> None:
    store = SqlOutboxStore(database)
    store.add_many([OutboxRecord(f"m-{n}", "", f"key.{n}", b"{}") for n in range(3)])
    rows = driven(store.claim("relay", 10)).rows
    for row, error in zip(rows, ("no such\nqueue", "no exchange"), strict=False):
        driven(store.record_failure("relay", row, error))
    store.close()
    ended = acemq("outbox", "status", "--database", database)
    assert ended.code == 1
    assert "3 records wait" in ended.out
    assert "2 of them refused already and tried again; last: no exchange" in ended.out
    told = acemq("outbox", "status", "--json", "--database", database)
    assert (told.code, told.data["failing"], told.data["error"]) == (1, 2, "no exchange")
