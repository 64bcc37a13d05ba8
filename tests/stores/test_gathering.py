"""Calls that go together: each has its own answer, and nobody waits for more than two lots."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from acemq_amqp.flavours.workers import WorkerThreads
from acemq_amqp.patterns import Claim
from acemq_amqp.patterns.waiting import driven
from acemq_stores import SqlIdempotencyStore
from acemq_stores.sql.gathering import Gathering
from tests.support.eventually import eventually


class Slow:
    """Work whose first lot is under way until it is let go."""

    def __init__(self) -> None:
        self.lots: list[list[int]] = []
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, lot: list[int]) -> list[int]:
        self.lots.append(lot)
        self.begun.set()
        if len(self.lots) == 1:
            assert self.go.wait(30)
        if 13 in lot:
            raise OSError("the database is gone")
        return [10 * each for each in lot]


@pytest.fixture
def threads() -> Any:
    threads = WorkerThreads(2, "test-gathering")
    yield threads
    threads.stop()


def by_threads(work: Slow, gathering: Gathering[int, int], later: list[int]) -> list[Any]:
    """Asks for 1, and for the others while that is under way; what each was told."""
    with ThreadPoolExecutor(len(later) + 1) as pool:
        first = pool.submit(lambda: driven(gathering.ask(1)))
        assert work.begun.wait(30)
        others = [pool.submit(lambda n=n: driven(gathering.ask(n))) for n in later]  # type: ignore[misc]
        eventually(lambda: len(gathering._by_threads._waiting) == len(later), "all waiting")
        work.go.set()
        return [_told(each) for each in (first, *others)]


def _told(future: Future[int]) -> Any:
    failure = future.exception(30)
    return type(failure) if failure else future.result()


def by_tasks(work: Slow, gathering: Gathering[int, int], later: list[int]) -> list[Any]:
    """The same on an event loop."""

    async def run() -> list[Any]:
        first = asyncio.ensure_future(gathering.ask(1))
        await asyncio.to_thread(work.begun.wait, 30)
        others = [asyncio.ensure_future(gathering.ask(n)) for n in later]
        await asyncio.sleep(0)
        work.go.set()
        told = await asyncio.gather(first, *others, return_exceptions=True)
        return [type(each) if isinstance(each, Exception) else each for each in told]

    return asyncio.run(run())


Asking = Callable[[Slow, "Gathering[int, int]", list[int]], list[Any]]
BOTH = pytest.mark.parametrize("asking", [by_threads, by_tasks])


@BOTH
def test_what_comes_while_one_is_under_way_goes_together(
    asking: Asking, threads: WorkerThreads
) -> None:
    work = Slow()
    found = asking(work, Gathering(threads, work), [2, 3, 4, 5])
    assert found == [10, 20, 30, 40, 50]
    assert [sorted(lot) for lot in work.lots] == [[1], [2, 3, 4, 5]]


@BOTH
def test_a_failure_is_told_to_those_of_its_lot_alone(
    asking: Asking, threads: WorkerThreads
) -> None:
    work = Slow()
    gathering = Gathering(threads, work)
    assert asking(work, gathering, [2, 13]) == [10, OSError, OSError]
    assert driven(gathering.ask(7)) == 70


def test_many_threads_are_led_by_one_after_the_other(threads: WorkerThreads) -> None:
    gathering: Gathering[int, int] = Gathering(threads, lambda lot: [10 * each for each in lot])
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda n: driven(gathering.ask(n)), range(2000))
        assert list(found) == [10 * n for n in range(2000)]


async def test_one_that_was_cancelled_leaves_the_others_their_answers(
    threads: WorkerThreads,
) -> None:
    work = Slow()
    gathering = Gathering(threads, work)
    tasks = [asyncio.ensure_future(gathering.ask(n)) for n in range(3)]
    await asyncio.to_thread(work.begun.wait, 30)
    tasks[1].cancel()
    work.go.set()
    first, cancelled, last = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(cancelled, asyncio.CancelledError)
    assert (first, last) == (0, 20)


async def test_what_was_answered_to_nobody_is_undone_and_what_had_not_begun_is_left_out(
    threads: WorkerThreads,
) -> None:
    work = Slow()
    undone: list[tuple[int, int]] = []
    gathering = Gathering(threads, work, undone.extend)
    begun = asyncio.ensure_future(gathering.ask(1))
    await asyncio.to_thread(work.begun.wait, 30)
    waiting = asyncio.ensure_future(gathering.ask(2))
    await asyncio.sleep(0)
    begun.cancel()
    waiting.cancel()
    await asyncio.wait([begun, waiting])
    work.go.set()
    assert await gathering.ask(3) == 30
    assert (work.lots, undone) == ([[1], [3]], [(1, 10)])


async def test_a_confirmation_is_carried_out_although_its_caller_was_cancelled(
    threads: WorkerThreads,
) -> None:
    work = Slow()
    gathering = Gathering(threads, work)
    first = asyncio.ensure_future(gathering.ask(1))
    await asyncio.to_thread(work.begun.wait, 30)
    waiting = asyncio.ensure_future(gathering.ask(2))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    work.go.set()
    assert (await first, await gathering.ask(3)) == (10, 30)
    assert [2, 3] in work.lots or [2] in work.lots


def test_a_claim_whose_delivery_was_cancelled_meanwhile_is_given_up(database: str) -> None:
    store = SqlIdempotencyStore(database)
    driven(store.first_time("another"))  # the table is there
    gathered = store._claims._work
    begun, go = threading.Event(), threading.Event()

    def slow(asked: Any) -> Any:
        begun.set()
        go.wait(30)
        return gathered(asked)

    store._claims._work = slow

    async def claims() -> Claim:
        claiming = asyncio.ensure_future(store.claim("a", "cancelled"))
        await asyncio.to_thread(begun.wait, 30)
        claiming.cancel()
        await asyncio.wait([claiming])
        go.set()
        await store.claim("b", "next")  # of the next lot
        return await store.claim("a", "redelivered")

    assert asyncio.run(claims()) is Claim.CLAIMED
    store.close()


def test_claims_of_one_lot_on_one_key_are_made_one_after_the_other(database: str) -> None:
    store = SqlIdempotencyStore(database)

    async def claim() -> list[Claim]:
        asked = [("a", "1"), ("b", "1"), ("a", "2"), ("a", "1"), ("b", "")]
        return await asyncio.gather(*(store.claim(key, holder) for key, holder in asked))

    claimed, waits = Claim.CLAIMED, Claim.IN_PROGRESS
    assert asyncio.run(claim()) == [claimed, claimed, waits, claimed, waits]
    store.close()


def test_confirmations_of_one_lot_are_told_apart(database: str) -> None:
    store = SqlIdempotencyStore(database)

    async def confirm() -> list[bool]:
        for key in ("a", "b", "c"):
            await store.claim(key, "mine")
        asked = [
            store.confirm("a", "mine"),
            store.confirm("b", "another's"),
            store.confirm("c", "mine", b"result"),
            store.confirm("b", "mine"),
            store.confirm("d", "mine"),
        ]
        return list(await asyncio.gather(*asked))

    assert asyncio.run(confirm()) == [True, False, True, True, False]
    assert driven(store.result("c")) == b"result"
    store.close()
