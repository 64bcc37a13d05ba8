"""A connection that nobody closed: one warning that says what to do, and nothing left hanging."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from pathlib import Path

import pytest

from acemq_amqp import Topology, blocking
from tests.contract import threads
from tests.contract.api import Api
from tests.contract.seen import Seen
from tests.contract.waiting import until

_ASYNC = """
import asyncio, sys
import acemq_amqp

async def open_one():
    mq = await acemq_amqp.connect(sys.argv[1])
    await mq.declare(acemq_amqp.Topology().queue(sys.argv[2]))
    await mq.publisher("", sys.argv[2]).send(1)
    handled = asyncio.Event()
    async def handle(message):
        handled.set()
    await mq.consume(sys.argv[2], handle)
    await handled.wait()

async def in_a_task():
    async with acemq_amqp.connect(sys.argv[1]) as mq:
        await mq.declare(acemq_amqp.Topology().queue(sys.argv[2]))
        opened.set()
        try:
            await mq.run()
        finally:
            for _ in range(5):  # others that are cancelled are quicker
                await asyncio.sleep(0)

async def leave_it_to_a_task():
    global opened
    opened = asyncio.Event()
    task = asyncio.create_task(in_a_task())
    await opened.wait()

asyncio.run({main}())
print("done")
"""
_BLOCKING = """
import sys, threading
from acemq_amqp import Topology, blocking

mq = blocking.connect(sys.argv[1])
mq.declare(Topology().queue(sys.argv[2]))
mq.publisher("", sys.argv[2]).send(1)
handled = threading.Event()
mq.consume(sys.argv[2], lambda message: handled.set())
handled.wait()
print("done")
"""


async def run(program: str, url: str, queue: str) -> str:
    """Runs a program, which has to end well; what it said on its way out."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "always::ResourceWarning", "-c", program, url, queue),
        cwd=Path(__file__).parents[2],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, said = await asyncio.wait_for(process.communicate(), 50.0)
    assert (process.returncode, out) == (0, b"done\n"), said.decode()
    return said.decode()


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
async def test_the_end_of_its_loop_is_a_warning_and_nothing_else(api: Api) -> None:
    said = await run(_ASYNC.replace("{main}", "open_one"), api.stand.url, api.name("left"))
    assert "ResourceWarning: acemq: a connection was left open" in said
    assert "async with" in said
    assert "destroyed" not in said and "Traceback" not in said and "unclosed" not in said


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
async def test_an_owner_that_is_cancelled_with_its_loop_closes_in_peace(api: Api) -> None:
    program = _ASYNC.replace("{main}", "leave_it_to_a_task")
    assert await run(program, api.stand.url, api.name("left")) == ""


@pytest.mark.parametrize("flavour", ["blocking"], indirect=True)
async def test_the_end_of_its_process_is_a_warning_and_nothing_else(api: Api) -> None:
    said = await run(_BLOCKING, api.stand.url, api.name("left"))
    assert said.count("ResourceWarning: acemq: a connection was") == 1
    assert "Traceback" not in said and "unclosed" not in said


@pytest.mark.parametrize("flavour", ["blocking"], indirect=True)
async def test_one_that_is_forgotten_is_closed(api: Api) -> None:
    before = set(threading.enumerate())

    def forget() -> None:
        blocking.connect(api.stand.url).health()
        gc.collect()

    with pytest.warns(ResourceWarning, match="left open"):
        await threads.run(forget)
    await until(lambda: not ours(before), "its threads to end")


@pytest.mark.parametrize("flavour", ["blocking"], indirect=True)
async def test_one_that_is_used_by_a_publisher_is_not_forgotten(api: Api) -> None:
    before = set(threading.enumerate())

    def use() -> None:
        queue = api.name("used")
        mq = blocking.connect(api.stand.url)
        mq.declare(Topology().queue(queue))
        publisher = mq.publisher("", queue)
        del mq
        gc.collect()
        assert publisher.send(1).routed

    with pytest.warns(ResourceWarning, match="left open") as warned:
        await threads.run(use)
    assert len(warned) == 1  # once the publisher was gone
    await until(lambda: not ours(before), "its threads to end")


@pytest.mark.parametrize("flavour", ["blocking"], indirect=True)
async def test_one_that_is_forgotten_with_a_consumer_goes_on_consuming(api: Api) -> None:
    other = await api.connect()
    queue, seen = await api.queue(other), Seen()

    mq = blocking.connect(api.stand.url)
    kept = blocking.Connection(mq._core)  # another hold of it, so that it can be closed below
    mq.consume(queue, seen)
    with pytest.warns(ResourceWarning, match="has consumers"):
        del mq
    await other.publisher("", queue).send(1)
    await until(lambda: seen.payloads == [1], "a message handled")
    await threads.run(kept.close)


def ours(before: set[threading.Thread]) -> list[str]:
    new = set(threading.enumerate()) - before
    return [thread.name for thread in new if thread.name.startswith("acemq")]
