"""``acemq groups`` on SQLite and PostgreSQL: groups are listed, told their lag, and moved."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from acemq_amqp.blocking import connect
from acemq_amqp.blocking.eventlog import EventLog, InMemoryLogStore
from acemq_stores import SqlLogStore
from tests.cli.conftest import Acemq


@pytest.fixture
def log(names: Callable[[str], str]) -> str:
    """A name."""
    return names("log")


@pytest.fixture
def words(amqp_url: str, database: str, log: str) -> list[str]:
    """A log of five messages, of which a group has read three."""
    store = SqlLogStore(database)
    with EventLog(url=amqp_url, store=store) as client:
        queue = client.queue(log)
        queue.push([{"data": n} for n in range(5)])
        queue.group("billing").subscription_mode("all").each().limit(3).consume(lambda _: None)
    store.close()
    return ["--url", amqp_url, "--database", database]


def test_groups_are_listed_with_where_they_stand(acemq: Acemq, words: list[str], log: str) -> None:
    ended = acemq("groups", "list", log, *words)
    assert (ended.code, ended.err) == (0, "")
    assert "billing" in ended.out and "@4" in ended.out
    (told,) = acemq("groups", "list", log, "--json", *words).data
    assert (told["group"], told["stands"], told["readers"]) == ("billing", {log: 4}, [])
    assert told["lag"] == {"messages": 2, "exact": True}


def test_lag_is_told_and_may_be_too_much(acemq: Acemq, words: list[str], log: str) -> None:
    assert acemq("groups", "lag", log, "billing", *words).out == "2 messages behind\n"
    assert acemq("groups", "lag", log, "billing", "--max", 1, *words).code == 1
    assert acemq("groups", "lag", log, "billing", "--max", 2, *words).code == 0
    acemq("groups", "seek", log, "billing", "--offset", "5", "--yes", *words)
    assert acemq("groups", "lag", log, "billing", *words).out == "1 message behind\n"
    lane = acemq("groups", "lag", log, "billing", "--partition", "other", "--json", *words)
    assert lane.data == {"messages": 0, "exact": True}


def test_a_group_of_a_log_that_was_made_anew_is_told_as_such(
    acemq: Acemq, words: list[str], log: str, amqp_url: str
) -> None:
    with connect(amqp_url) as mq:
        mq.delete_queue(log)
    with EventLog(url=amqp_url, store=InMemoryLogStore()) as client:
        client.queue(log).push([{"data": n} for n in range(5)])
    ended = acemq("groups", "lag", log, "billing", *words)
    assert ended.code != 0 and "deleted and made again" in ended.err
    assert "made anew" in acemq("groups", "list", log, *words).out
    (told,) = acemq("groups", "list", log, "--json", *words).data
    assert (told["group"], told["lag"]) == ("billing", None)


def test_a_group_is_moved_and_a_dry_run_moves_nothing(
    acemq: Acemq, words: list[str], log: str
) -> None:
    place = ("groups", "seek", log, "billing")
    dry = acemq(*place, "--back", 2, "--dry-run", *words)
    assert (dry.code, dry.out) == (0, f"would move {log} from 4 to 2\n")
    assert acemq("groups", "lag", log, "billing", "--json", *words).data["messages"] == 2
    moved = acemq(*place, "--back", 2, "--yes", "--json", *words)
    assert moved.data == [{"stream": log, "partition": None, "before": 4, "after": 2}]
    assert acemq("groups", "lag", log, "billing", "--json", *words).data["messages"] == 4
    assert acemq(*place, "--to", "next", "--yes", *words).out == f"moved {log} from 2 to 6\n"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--timestamp", "2026-05-01T12:00:00"], "no zone"),
        (["--offset", "1000"], "past the end"),
        (["--to", "last"], "'first' or 'next'"),
        (["--to", "first", "--back", "1"], "one place"),
        ([], "one place"),
    ],
    ids=str,
)
def test_a_seek_to_nowhere_is_refused(
    acemq: Acemq, words: list[str], log: str, options: list[str], told: str
) -> None:
    ended = acemq("groups", "seek", log, "billing", "--yes", *options, *words)
    assert ended.code == 2 and told in ended.err


def test_what_is_not_there_is_told(acemq: Acemq, words: list[str], log: str) -> None:
    assert "no group 'nobody'" in acemq("groups", "lag", log, "nobody", *words).err
    assert "no event log" in acemq("groups", "list", f"{log}.none", *words).err
    assert acemq("groups", "list", log, *words[:2]).code == 2
