"""State, output, position and the user's own writes are one commit, whatever fails around it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from acemq_amqp.errors import StoreError
from acemq_amqp.eventlog import EventLog, LogStore, QueryFailed, Stream
from acemq_amqp.eventlog.selection import QUERY_GROUPS
from acemq_amqp.eventlog.store import Step
from acemq_amqp.patterns.waiting import driven
from tests.eventlog.queries.scene import (
    Event,
    Scene,
    as_given,
    in_memory,
    in_state,
    with_both,
    with_postgres,
    with_sqlite,
)
from tests.stores import databases

#: By the last of them the first minute is over.
NUMBERS = [Event("acme", number) for number in (1, 2, 3, 4, 5, 0)]
SUM = 15


def summing(
    scene: Scene, log: EventLog, source: str, target: str, each: Callable[[Any], Any] = lambda n: n
) -> Stream:
    """Sums up to the zero, into a log; nothing closes by itself."""
    query = scene.stream(log.queue(source).subscription_mode("all")).map(each)
    query.window_tumbling(
        seconds=60, event_time=lambda number: 60 * (number == 0), idle_lanes="wait"
    )
    return query.aggregate({"sum": lambda number: number}).to(as_given(log.queue(target)))


async def the_sum(scene: Scene, totals: str) -> Any:
    """The one result that there is to be."""
    (found,) = await scene.resulted(totals, 1)
    return found.data["sum"]


class Fails:
    """A function of the user's that fails a few times."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.told: list[Any] = []

    def __call__(self, result: Any) -> None:
        self.told.append(result)
        if self.left:
            self.left -= 1
            raise TimeoutError("the shop is closed")


@in_memory
async def test_foreach_is_called_before_the_commit_and_again_where_it_failed(scene: Scene) -> None:
    log = await scene.open()
    source, totals = scene.name("numbers"), scene.name("totals")
    await scene.push(source, NUMBERS)
    shop = Fails(1)
    query = summing(scene, log, source, totals).foreach(lambda each: shop(each.data["sum"]))
    async with await query.run(query_id=scene.name("q")) as running:
        failing = await in_state(running, "retrying")
        assert "the shop is closed" in failing.error
        assert await scene.results(totals) == []
        assert await the_sum(scene, totals) == SUM
        assert (await in_state(running, "running")).error == ""
    assert shop.told == [SUM, SUM]


@in_memory
async def test_foreach_that_fails_for_good_ends_the_query_and_nothing_is_passed(
    scene: Scene,
) -> None:
    log = await scene.open()
    source, totals, query_id = scene.name("numbers"), scene.name("totals"), scene.name("q")
    await scene.push(source, NUMBERS)
    query = summing(scene, log, source, totals).foreach(Fails(9).__call__)
    running = await query.run(query_id=query_id, error_limit=2)
    with pytest.raises(QueryFailed, match="TimeoutError: the shop is closed"):
        await running.ended()
    status = await running.status()
    assert status.state == "failed" and status.lag is not None and status.lag.messages == 6
    async with await summing(scene, log, source, totals).run(query_id=query_id):
        assert await the_sum(scene, totals) == SUM


class Ledger:
    """A table of the user's, written in the transaction of the query."""

    def __init__(self, scene: Scene) -> None:
        self._database = scene.database
        self._rows: list[tuple[str, Any]] = []
        self.fails = 1
        if self._database is not None:
            databases.run(self._database, "CREATE TABLE ledger (id text, total integer)")

    def write(self, tx: Any, results: list[Any]) -> None:
        for result in results:
            row = (result.id, result.data["sum"])
            if tx is None:
                self._rows.append(row)
            else:
                mark = "?" if str(self._database).startswith("sqlite") else "%s"
                tx.execute(f"INSERT INTO ledger VALUES ({mark}, {mark})", row)
        if self.fails:
            self.fails -= 1
            self._rows.clear()
            raise RuntimeError("a rule of the ledger's")

    def rows(self) -> list[tuple[str, Any]]:
        if self._database is None:
            return self._rows
        with closing(databases.opened(self._database)) as look:
            return [tuple(row) for row in look.execute("SELECT id, total FROM ledger").fetchall()]


@with_both
async def test_the_users_own_writes_are_in_the_same_commit_once(scene: Scene) -> None:
    log = await scene.open()
    source, totals = scene.name("numbers"), scene.name("totals")
    await scene.push(source, NUMBERS)
    ledger = Ledger(scene)
    query = summing(scene, log, source, totals).write(ledger.write)
    async with await query.run(query_id=scene.name("q")) as running:
        assert "a rule of the ledger's" in (await in_state(running, "retrying")).error
        assert ledger.rows() == []
        (found,) = await scene.resulted(totals, 1)
    assert found.window is not None
    assert ledger.rows() == [(found.window.id, SUM)]


# ------------------------------------------------------------ what cannot be counted


@with_sqlite
async def test_a_message_that_cannot_be_counted_is_a_dead_letter_with_its_reason(
    scene: Scene,
) -> None:
    log = await scene.open()
    source, totals = scene.name("numbers"), scene.name("totals")
    await scene.push(source, [Event("acme", "seven"), Event("acme", {}), *NUMBERS])
    query = summing(scene, log, source, totals)
    async with await query.run(query_id=scene.name("q")) as running:
        assert await the_sum(scene, totals) == SUM
        dead = await scene.pulled(f"{source}.dlq", 2)
        assert (await running.status()).dead_letters == 2
    reasons = {str(payload): headers["x-acemq-error"] for payload, headers in dead}
    assert "type str, which is no number" in reasons["seven"]
    assert "type dict, which is no number" in reasons["{}"]


@in_memory
@pytest.mark.parametrize(
    ("after", "told"),
    [
        (lambda data: data["total"], "KeyError: 'total'"),
        (lambda data: {1}, "no spelling for a set"),
    ],
)
async def test_a_result_that_cannot_be_sent_ends_the_query_and_says_so(
    scene: Scene, after: Callable[[Any], Any], told: str
) -> None:
    log = await scene.open()
    source, totals, query_id = scene.name("numbers"), scene.name("totals"), scene.name("q")
    await scene.push(source, NUMBERS)
    running = await summing(scene, log, source, totals).map(after).run(query_id=query_id)
    with pytest.raises(QueryFailed, match=f"query {query_id!r} cannot give a result.*{told}"):
        await running.ended()
    status = await running.status()
    assert status.state == "failed" and status.lag is not None and status.lag.messages == 6
    mended = summing(scene, log, source, totals).map(lambda data: data)
    async with await mended.run(query_id=query_id):
        assert await the_sum(scene, totals) == SUM


@in_memory
async def test_without_dead_letters_no_message_is_given_up_that_ended_its_runners(
    scene: Scene,
) -> None:
    log = await scene.open()
    source, totals, query_id = scene.name("numbers"), scene.name("totals"), scene.name("q")
    await scene.push(source, NUMBERS)
    position = await scene.store.create(f"{QUERY_GROUPS}{query_id}", source, 0, "")
    held = await scene.store.hold(position.fence.group, source, "ended")
    assert await scene.store.commit(held.fence, "ended", Step(0, begun=7, attempts=9))
    await scene.store.release(held.fence, "ended")
    reads = log.queue(source).config({"dead_letters": False})
    query = scene.stream(reads.subscription_mode("all"))
    query.window_tumbling(seconds=60, event_time=lambda n: 60 * (n == 0), idle_lanes="wait")
    query.aggregate({"sum": lambda number: number}).to(as_given(log.queue(totals)))
    async with await query.run(query_id=query_id) as running:
        assert await the_sum(scene, totals) == SUM
        assert (await running.status()).dead_letters == 0


@in_memory
async def test_where_message_after_message_fails_the_query_ends_and_passes_none(
    scene: Scene,
) -> None:
    log = await scene.open()
    source, totals, query_id = scene.name("numbers"), scene.name("totals"), scene.name("q")
    await scene.push(source, NUMBERS)
    query = summing(scene, log, source, totals, lambda number: number["amount"])
    running = await query.run(query_id=query_id, error_limit=5)
    with pytest.raises(QueryFailed, match="failed on 5 messages in a row"):
        await running.ended()
    assert (await running.status()).dead_letters == 0
    with pytest.raises(QueryFailed):
        await running.drain()
    # functions are not part of the shape: mended, it goes on where it was
    async with await summing(scene, log, source, totals).run(query_id=query_id):
        assert await the_sum(scene, totals) == SUM


# ------------------------------------------------------------ store and broker away


@with_sqlite
async def test_a_store_that_is_away_in_the_middle_of_a_cycle_changes_no_result(
    scene: Scene,
) -> None:
    log = await scene.open()
    source, totals = scene.name("numbers"), scene.name("totals")
    await scene.push(source, NUMBERS)
    steps: list[str] = []

    def away(step: str) -> None:
        steps.append(step)
        if len(steps) in (2, 3, 5, 9):  # before a commit, and after one that took place
            raise StoreError("acemq: the database is away")

    scene.store.hook = away
    query = summing(scene, log, source, totals)
    async with await query.run(query_id=scene.name("q"), batch_size=2) as running:
        assert "the database is away" in (await in_state(running, "retrying")).error
        assert await the_sum(scene, totals) == SUM
        await in_state(running, "running")
    assert len(steps) > 9


@with_sqlite
async def test_a_connection_that_is_lost_is_made_again_and_nothing_counts_twice(
    scene: Scene,
) -> None:
    log = await scene.open()
    source, totals = scene.name("numbers"), scene.name("totals")
    await log.queue(source).create()
    query = summing(scene, log, source, totals)
    async with await query.run(query_id=scene.name("q"), batch_size=2) as running:
        await scene.push(source, NUMBERS[:3])
        await running.drain()
        await scene.end_connections()
        await scene.push(source, NUMBERS[3:])
        assert await the_sum(scene, totals) == SUM
        assert (await in_state(running, "running")).error == ""


# ------------------------------------------------------------ two runners


@with_postgres
async def test_of_two_runners_one_works_and_the_other_takes_over_at_once(scene: Scene) -> None:
    one, other = await scene.open(), await scene.open()
    source, totals, query_id = scene.name("numbers"), scene.name("totals"), scene.name("q")
    await scene.push(source, NUMBERS[:3])

    first = await summing(scene, one, source, totals).run(query_id=query_id)
    await first.drain()
    second = await summing(scene, other, source, totals).run(query_id=query_id)
    await second.drain()
    assert [(await each.status()).events for each in (first, second)] == [3, 0]
    await first.stop()
    await scene.push(source, NUMBERS[3:])
    assert await the_sum(scene, totals) == SUM
    assert (await second.status()).events == 3
    await second.stop()


@with_postgres
async def test_a_runner_that_wakes_after_its_lease_commits_nothing(scene: Scene) -> None:
    one, other = await scene.open(), await scene.open()
    source, totals, query_id = scene.name("numbers"), scene.name("totals"), scene.name("q")
    await scene.push(source, NUMBERS)
    asleep, wake = threading.Event(), threading.Event()

    def sleeps(result: Any) -> None:
        asleep.set()
        wake.wait(30)

    ledger = Ledger(scene)
    ledger.fails = 0
    sleeper = summing(scene, one, source, totals).write(ledger.write).foreach(sleeps)
    first = await sleeper.run(query_id=query_id)
    await asyncio.to_thread(asleep.wait)
    scene.pass_time(31)
    query = summing(scene, other, source, totals).write(ledger.write)
    async with await query.run(query_id=query_id) as second:
        assert await the_sum(scene, totals) == SUM
        wake.set()
        await first.stop()
        await second.drain()
    assert [total for _, total in ledger.rows()] == [SUM]
    assert await the_sum(scene, totals) == SUM


@in_memory
async def test_a_hold_that_is_passed_while_it_waits_for_the_user_is_taken_again(
    scene: Scene,
) -> None:
    log = await scene.open()
    source, totals, query_id = scene.name("numbers"), scene.name("totals"), scene.name("q")
    await scene.push(source, NUMBERS)
    steps: list[str] = []

    def passed(step: str) -> None:
        steps.append(step)
        if len(steps) == 3:  # another takes the stream and gives it back, between two commits
            scene.pass_time(31)
            driven(passing(scene.store, f"acemq.query.{query_id}", source))

    scene.store.hook = passed
    query = summing(scene, log, source, totals)
    async with await query.run(query_id=query_id, batch_size=2):
        assert await the_sum(scene, totals) == SUM


async def passing(store: LogStore, group: str, stream: str) -> None:
    """Another one's hold, taken and given back."""
    position = await store.hold(group, stream, "another")
    assert position is not None
    await store.release(position.fence, "another")
