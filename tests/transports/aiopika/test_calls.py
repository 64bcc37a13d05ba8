"""Calls to the driver end in time, and tell a lost connection from a caller's cancellation."""

from __future__ import annotations

import asyncio
import time

import pytest

from acemq_amqp.errors import BrokerTimeout, ConnectionLost
from acemq_amqp.transports.aiopika.calls import Calls
from acemq_amqp.transports.aiopika.deadlines import Deadlines


def calls() -> Calls:
    return Calls(asyncio.get_running_loop())


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


async def test_answer_comes_through() -> None:
    assert await calls().ask(asyncio.sleep(0, "answer"), None, "a thing") == "answer"


async def test_error_of_the_driver_comes_through() -> None:
    async def fail() -> None:
        raise ValueError("the driver's")

    with pytest.raises(ValueError, match="the driver's"):
        await calls().ask(fail(), None, "a thing")


async def test_no_answer_by_the_deadline() -> None:
    with pytest.raises(BrokerTimeout, match=r"acemq: .*declaring queue 'q'"):
        await calls().ask(for_ever(), time.monotonic(), "declaring queue 'q'")


async def test_cancellation_by_the_driver_is_a_lost_connection() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ConnectionLost, match="a thing"):
        await calls().ask(cancelled(), None, "a thing")


async def test_cancellation_of_the_caller_is_its_own_and_ends_the_call() -> None:
    ended = asyncio.Event()

    async def wait() -> None:
        try:
            await for_ever()
        finally:
            ended.set()

    caller = asyncio.create_task(calls().ask(wait(), None, "a thing"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await ended.wait()


async def test_end_of_the_connection_ends_calls_now_and_later() -> None:
    asked = calls()
    waiting = asyncio.create_task(asked.ask(for_ever(), None, "the first"))
    await asyncio.sleep(0)
    asked.end(ConnectionLost("acemq: the cable was cut", code=320))
    for call in (waiting, asked.ask(for_ever(), None, "the second")):
        with pytest.raises(ConnectionLost, match="the cable was cut") as caught:
            await call
        assert caught.value.code == 320
        assert isinstance(caught.value.__cause__, ConnectionLost)
    asked.abandon()
    await asked.finished(30.0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


class Waiting:
    def __init__(self) -> None:
        self.expired = asyncio.Event()

    def expire(self) -> None:
        self.expired.set()


async def test_deadlines_fall_due_but_not_for_what_was_discarded() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    now = time.monotonic()
    due, settled, later = Waiting(), Waiting(), Waiting()
    deadlines.add(now, due)
    deadlines.add(now, settled).discard(settled)
    deadlines.add(now + 1000.0, later)
    await due.expired.wait()
    assert not settled.expired.is_set() and not later.expired.is_set()
    deadlines.close()


async def test_deadline_is_never_early() -> None:
    waiting = Waiting()
    deadline = time.monotonic() + 0.05
    Deadlines(asyncio.get_running_loop()).add(deadline, waiting)
    await waiting.expired.wait()
    assert time.monotonic() >= deadline
