"""Codecs that may have to wait: who is waited for, in which threads, and how many at once."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from acemq_amqp.codec import CompositeCodec, JsonCodec
from acemq_amqp.errors import HandlerError
from acemq_amqp.flavours.tasks import TaskWork
from acemq_amqp.flavours.threads import ThreadWork, drive
from acemq_amqp.flavours.workers import WorkerThreads
from tests.contract.waiting import until

where = contextvars.ContextVar("where", default="nowhere")


class Waiting(JsonCodec):
    """Waits to read and not to write."""

    async def decode_async(self, body: bytes, content_type: str | None = None) -> Any:
        return "awaited"


class Blocking(JsonCodec):
    blocking = True

    def encode(self, payload: Any) -> bytes:
        return threading.current_thread().name.encode()


class Cancelled(JsonCodec):
    async def encode_async(self, payload: Any) -> bytes:
        raise asyncio.CancelledError


async def test_a_codec_that_only_computes_is_called_as_it_is() -> None:
    work = TaskWork()
    assert work.waiting(JsonCodec()) is None
    work.stop()


def test_the_blocking_flavour_waits_in_the_caller_s_thread() -> None:
    work = ThreadWork()
    assert [work.waiting(each) for each in (JsonCodec(), Waiting(), Blocking())] == [None] * 3
    work.stop()


async def test_one_call_may_wait_and_the_other_not() -> None:
    work = TaskWork()
    waiting = work.waiting(Waiting())
    assert waiting is not None
    assert await waiting.decode(b"[1]", "application/json") == "awaited"
    assert await waiting.encode([1]) == b"[1]"
    work.stop()


async def test_one_that_blocks_runs_in_a_thread_of_its_own() -> None:
    work = TaskWork()
    waiting = work.waiting(Blocking())
    assert waiting is not None
    assert (await waiting.encode(None)).startswith(b"acemq-codec")
    assert await waiting.decode(b"[1]") == [1]
    work.stop()


class Wrapper:
    """Somebody's codec around another one, which knows nothing of waiting."""

    content_type = "application/json"

    def __init__(self, kept: Any) -> None:
        self._kept = kept

    def encode(self, payload: Any) -> bytes:
        return threading.current_thread().name.encode()

    def decode(self, body: bytes, content_type: str | None = None) -> Any:
        return threading.current_thread().name

    def can_decode(self, content_type: str | None) -> bool:
        return True


class Slotted(Wrapper):
    __slots__ = ("_inside",)

    def __init__(self, kept: Any) -> None:
        super().__init__(None)
        self._inside = kept


@pytest.mark.parametrize(
    "wrapper",
    [
        Wrapper(Waiting()),
        Wrapper([JsonCodec(), Waiting()]),
        Wrapper({"json": Waiting()}),
        Wrapper(Wrapper(Blocking())),
        Slotted(Waiting()),
        CompositeCodec(JsonCodec(), Wrapper(Waiting())),
    ],
)
async def test_a_wrapper_that_knows_nothing_of_waiting_runs_whole_in_a_thread(wrapper: Any) -> None:
    work = TaskWork()
    waiting = work.waiting(wrapper)
    assert waiting is not None
    if isinstance(wrapper, Wrapper):
        assert (await waiting.encode(1)).startswith(b"acemq-codec")
    assert (await waiting.decode(b"", "application/x")).startswith("acemq-codec")
    work.stop()


async def test_one_that_wraps_what_only_computes_or_itself_is_called_as_it_is() -> None:
    work, itself = TaskWork(), Wrapper(None)
    itself._kept = [itself, Wrapper(itself)]
    assert [work.waiting(each) for each in (Wrapper(JsonCodec()), itself)] == [None] * 2
    work.stop()


async def test_a_cancellation_of_the_codec_s_own_making_is_an_error() -> None:
    work = TaskWork()
    waiting = work.waiting(Cancelled())
    assert waiting is not None
    with pytest.raises(HandlerError, match="ended with CancelledError"):
        await waiting.encode(None)
    work.stop()


# ------------------------------------------------------------ many payloads


async def test_each_gives_results_in_order_and_has_eight_under_way() -> None:
    work = TaskWork()
    under_way, most, go = 0, 0, asyncio.Event()
    begun: list[int] = []

    async def double(item: int) -> int:
        nonlocal under_way, most
        begun.append(item)
        under_way += 1
        most = max(most, under_way)
        if len(begun) == 8:
            go.set()
        await go.wait()
        await asyncio.sleep(0 if item % 2 else 0.001)
        under_way -= 1
        return item * 2

    assert await work.each(double, range(50)) == [item * 2 for item in range(50)]
    assert (begun, most) == (list(range(50)), 8)
    assert await work.each(double, []) == []
    work.stop()


def test_the_blocking_flavour_takes_one_after_another() -> None:
    work = ThreadWork()

    async def double(item: int) -> int:
        return item * 2

    assert drive(work.each(double, [3, 1, 2])) == [6, 2, 4]
    work.stop()


async def test_the_first_failure_is_raised_with_its_cause_and_ends_the_others() -> None:
    work = TaskWork()
    cancelled: list[int] = []

    async def fail(item: int) -> None:
        if item == 3:
            await asyncio.sleep(0)
            raise ValueError("third") from KeyError("why")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(item)
            raise

    with pytest.raises(ValueError, match="third") as raised:
        await work.each(fail, range(20))
    assert isinstance(raised.value.__cause__, KeyError)
    assert sorted(cancelled) == [0, 1, 2, 4, 5, 6, 7]
    work.stop()


# ------------------------------------------------------------ threads


async def test_a_function_sees_its_caller_s_context() -> None:
    threads = WorkerThreads(2, "test-worker")
    where.set("here")
    assert await threads.run(where.get) == "here"
    threads.stop()


async def test_cancelled_callers_do_not_make_more_threads() -> None:
    threads, go = WorkerThreads(2, "test-worker"), threading.Event()
    for _ in range(3):
        calls = [asyncio.ensure_future(threads.run(go.wait, 60)) for _ in range(2)]
        await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
    # far longer than idle threads are kept
    await asyncio.sleep(1.5)
    waiting = asyncio.ensure_future(threads.run(go.wait, 60))
    await asyncio.sleep(0)
    assert len(alive("test-worker")) == 2
    go.set()
    assert await waiting is True
    threads.stop()


async def test_threads_with_nothing_to_do_end() -> None:
    threads = WorkerThreads(4, "test-worker")
    await asyncio.gather(*(threads.run(int) for _ in range(8)))
    await until(lambda: not alive("test-worker"), "the threads ended")
    assert await threads.run(int) == 0  # and come back
    threads.stop()
    await until(lambda: not alive("test-worker"), "the threads ended")


async def test_a_stop_ends_the_calls_that_wait() -> None:
    threads, go = WorkerThreads(1, "test-worker"), threading.Event()
    running = asyncio.ensure_future(threads.run(go.wait, 60))
    queued = asyncio.ensure_future(threads.run(int))
    await asyncio.sleep(0)
    threads.stop()
    with pytest.raises(asyncio.CancelledError):
        await queued
    go.set()
    assert await running is True


def alive(name: str) -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith(name)]
