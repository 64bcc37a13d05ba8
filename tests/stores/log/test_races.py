"""Several at once, deaths in the middle, lost connections: one writes, once, or nothing does."""

from __future__ import annotations

import signal
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg
import pytest
from psycopg import errors

from acemq_amqp import ConfigurationError
from acemq_amqp.eventlog.store import LaneLease, Step
from acemq_amqp.patterns.waiting import driven
from acemq_stores import SqlLogStore
from tests.stores import databases
from tests.stores.conftest import Call
from tests.stores.log.programs import commit_and_die
from tests.stores.log.stands import LEASE, Group, Stand, window

T = TypeVar("T")
CROWD = 6

on_databases = pytest.mark.parametrize(
    "stand", ["sqlite", pytest.param("postgresql", marks=pytest.mark.server)], indirect=True
)


@pytest.fixture
def call() -> Call:
    """Each thread drives its own calls."""
    return driven


@pytest.fixture
def database(stand: Stand) -> str:
    """A database, with a table of the user's own."""
    assert stand.database is not None
    databases.run(
        stand.database,
        "CREATE TABLE IF NOT EXISTS counts (name text PRIMARY KEY, n integer NOT NULL)",
        "DELETE FROM counts",
        "INSERT INTO counts VALUES ('a', 0)",
    )
    return stand.database


def counting(connection: Any) -> None:
    connection.execute("UPDATE counts SET n = n + 1")


def counted(database: str) -> int:
    return int(databases.rows(database, "SELECT n FROM counts")[0][0])


def at_once(function: Callable[[int], T]) -> list[T]:
    """What threads get that begin at the same moment."""
    gate = threading.Barrier(CROWD)

    def begun(number: int) -> T:
        gate.wait()
        return function(number)

    with ThreadPoolExecutor(CROWD) as threads:
        return list(threads.map(begun, range(CROWD)))


# ------------------------------------------------------------ many ask


def test_of_many_that_put_a_group_somewhere_one_does(group: Group) -> None:
    found = at_once(lambda number: group.create(number, ""))
    assert len({(each.next, each.fence) for each in found}) == 1


def test_of_many_that_take_a_stream_one_has_it(group: Group) -> None:
    group.create()
    taken = at_once(lambda number: group.hold(f"holder-{number}"))
    won = [position for position in taken if position is not None]
    assert len(won) == 1
    assert group.commits(won[0].fence, 11, won[0].holder)


def test_of_many_that_lease_lanes_each_lane_goes_to_one(group: Group) -> None:
    fence = group.create().fence
    wanted = {f"lane-{number}": 10 for number in range(20)}
    leased = at_once(lambda number: group.leases(wanted, f"token-{number}", fence))
    assert sorted(each.lane for leases in leased for each in leases) == sorted(wanted)
    assert {each.attempts for leases in leased for each in leases} == {1}


def test_a_stream_is_never_held_while_a_lane_of_it_is_leased(group: Group) -> None:
    group.create()
    for _ in range(8):
        fence = group.position().fence

        def ask(number: int, fence: Any = fence) -> str:
            if number % 2:
                return "held" if group.hold(f"holder-{number}") else ""
            return "leased" if group.leases({f"lane-{number}": 10}, "t", fence) else ""

        won = at_once(ask)
        assert ("held" in won) != ("leased" in won)
        assert won.count("held") <= 1
        group.seeks(10, "m9")


@on_databases
def test_the_cursor_and_the_users_writes_are_one_whoever_takes_over(
    group: Group, database: str
) -> None:
    group.create(0, "")

    def read(number: int) -> int:
        done = 0
        while done < 5:
            # all have one name, so each hold takes the stream from whoever has it
            position = group.hold("reader")
            if position is not None:
                step = {"work": counting, "records": [group.record(f"r{position.next}")]}
                done += group.commits(position.fence, position.next + 1, "reader", **step)
        return done

    assert sum(at_once(read)) == group.position().next == counted(database) == 5 * CROWD
    assert len(group.out()) == 5 * CROWD


def test_a_seek_in_the_middle_of_a_commit_comes_after_it(group: Group) -> None:
    group.create()
    fence = group.held()
    begun = threading.Event()

    def sought() -> Any:
        begun.set()
        return group.seeks(3, "m2")

    with ThreadPoolExecutor(1) as threads:
        waiting = []

        def work(connection: Any) -> None:
            waiting.append(threads.submit(sought))
            begun.wait()

        assert group.commits(fence, 20, work=work)
        assert waiting[0].result() == group.position()
    assert group.position().next == 3
    assert not group.commits(fence, 30)


def test_a_reset_in_the_middle_of_a_commit_leaves_none_of_its_windows(group: Group) -> None:
    group.create()
    old = group.registers()
    fence = group.held()
    begun = threading.Event()

    def reset() -> Any:
        begun.set()
        return group.registers("shape", "all")

    with ThreadPoolExecutor(1) as threads:
        waiting = []

        def work(connection: Any) -> None:
            waiting.append(threads.submit(reset))
            begun.wait()

        step: dict[str, Any] = {"query": old, "windows": [window()], "watermarks": {"a": 1.0}}
        assert group.commits(fence, 20, work=work, **step)
        new = waiting[0].result()
    assert group.windows(new, ("a", "k")) == [] and group.watermarks(new) == {}
    assert not group.commits(fence, 30, query=old, windows=[window()])


# ------------------------------------------------------------ deaths and lost connections


@on_databases
def test_of_a_process_killed_in_a_commit_nothing_is_left(group: Group, database: str) -> None:
    group.create()
    assert commit_and_die(database, group.name, group.stream) == -signal.SIGKILL
    left = group.position()
    assert (left.next, left.anchor, left.holder, group.out()) == (10, "m9", "dies", [])
    assert group.hold("next") is None
    group.stand.pass_time(LEASE + 1)
    assert group.commits(group.held("next"), 20, "next", records=[group.record("r")])
    assert (group.position().next, group.out()) == (20, ["r"])


@on_databases
def test_what_the_user_wrote_is_undone_with_the_rest(group: Group, database: str) -> None:
    group.create()
    fence = group.held()

    def work(connection: Any) -> None:
        counting(connection)
        raise LookupError

    with pytest.raises(LookupError):
        group.commits(fence, 11, work=work, records=[group.record("r")])
    assert (counted(database), group.position().next, group.out()) == (0, 10, [])
    assert group.commits(fence, 11, work=counting)
    assert counted(database) == 1


@on_databases
def test_what_the_database_says_to_the_users_writes_is_raised_as_it_is(
    group: Group, database: str
) -> None:
    group.create()

    def work(connection: Any) -> None:
        connection.execute("INSERT INTO counts VALUES ('a', 0)")

    with pytest.raises((sqlite3.IntegrityError, errors.UniqueViolation)):
        group.commits(group.held(), 11, work=work)
    assert group.position().next == 10


@on_databases
@pytest.mark.parametrize("how", ["commit", "rollback", "with"])
def test_the_users_work_cannot_end_the_transaction(group: Group, database: str, how: str) -> None:
    group.create()
    fence = group.held()

    def work(connection: Any) -> None:
        counting(connection)
        if how != "with":
            getattr(connection, how)()
        elif database.startswith("sqlite"):
            with connection:
                counting(connection)
        else:
            connection.commit()

    with pytest.raises((ConfigurationError, psycopg.ProgrammingError)):
        group.commits(fence, 11, work=work, records=[group.record("r")])
    assert (counted(database), group.position().next, group.out()) == (0, 10, [])
    assert group.commits(fence, 11, work=counting)
    assert counted(database) == 1


@on_databases
def test_work_that_the_database_undid_is_done_again(group: Group, database: str) -> None:
    group.create()
    calls = []

    def work(connection: Any) -> None:
        counting(connection)
        calls.append(connection)
        if len(calls) == 1:
            raise errors.DeadlockDetected("somebody else was first")

    assert group.commits(group.held(), 11, work=work)
    assert (len(calls), counted(database), group.position().next) == (2, 1, 11)


def losing_answers(database: str, lost: list[Exception]) -> SqlLogStore:
    """A store that is told an error after a commit that was made, for each in a list."""

    class Unlucky(psycopg.Connection[Any]):
        def commit(self) -> None:
            super().commit()
            if lost:
                raise lost.pop()

    return SqlLogStore(lambda: Unlucky.connect(database))


@pytest.mark.server
def test_lanes_whose_lease_was_not_answered_are_leased_once(postgres_database: str) -> None:
    lost: list[Exception] = []
    store = losing_answers(postgres_database, lost)
    fence = driven(store.create("g", "s", 1, "")).fence
    lost.append(psycopg.OperationalError("the connection was cut"))
    leased = driven(store.lease_lanes(fence, {"a": 1, "b": 2}, "mine"))
    assert not lost
    assert leased == [LaneLease("a", 1, 1), LaneLease("b", 2, 1)]
    assert driven(store.lease_lanes(fence, {"a": 1, "b": 2}, "another's")) == []
    store.close()


@pytest.mark.server
def test_a_commit_whose_answer_was_lost_is_not_done_twice(postgres_database: str) -> None:
    lost: list[Exception] = []
    databases.run(
        postgres_database,
        "CREATE TABLE counts (name text PRIMARY KEY, n integer NOT NULL)",
        "INSERT INTO counts VALUES ('a', 0)",
    )
    store = losing_answers(postgres_database, lost)
    driven(store.create("g", "s", 1, ""))
    position = driven(store.hold("g", "s", "one"))
    assert position is not None
    lost.append(psycopg.OperationalError("the connection was cut"))
    assert driven(store.commit(position.fence, "one", Step(2, work=counting)))
    assert not lost
    assert counted(postgres_database) == 1
    assert driven(store.commit(position.fence, "one", Step(3, work=counting)))
    assert counted(postgres_database) == 2
    store.close()
