"""A connection works where it was opened: in its process, and the async one on its event loop."""

from __future__ import annotations

import asyncio
import os
import threading
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from acemq_amqp import ConfigurationError, Connection, Topology
from tests.contract.api import Api
from tests.contract.seen import Seen

Verb = Callable[[Any, str], Awaitable[Any]]

VERBS: dict[str, Verb] = {
    "send": lambda mq, queue: mq.publisher("", queue).send(1),
    "send_many": lambda mq, queue: mq.publisher("", queue).send_many([1]),
    "consume": lambda mq, queue: mq.consume(queue, print),
    "declare": lambda mq, queue: mq.declare(Topology().queue(queue)),
    "verify": lambda mq, queue: mq.verify(Topology().queue(queue)),
    "message_count": lambda mq, queue: mq.message_count(queue),
    "pull": lambda mq, queue: mq.pull(queue),
    "health": lambda mq, queue: mq.health(),
    "run": lambda mq, queue: mq.run(),
    "close": lambda mq, queue: mq.close(),
    "close of a consumer": lambda mq, queue: mq.consumers[0].close(),
}


async def ready(api: Api) -> tuple[Connection, str]:
    """A connection with a consumer."""
    mq = await api.connect()
    queue = await api.queue(mq)
    await mq.consume(queue, Seen())
    return mq, queue


async def works(mq: Connection, queue: str) -> None:
    """Nothing came of it where the connection lives."""
    assert not mq.closed
    assert mq.consumers[0].running
    assert (await mq.publisher("", queue).send("after")).routed


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
@pytest.mark.parametrize("verb", VERBS)
async def test_another_event_loop_is_refused_at_once(api: Api, verb: str) -> None:
    mq, queue = await ready(api)
    refused = await on_another_loop(lambda: VERBS[verb](mq, queue))
    assert isinstance(refused, ConfigurationError)
    assert "another event loop" in str(refused)
    await works(mq, queue)


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
async def test_a_pulled_message_is_settled_on_its_loop(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    await mq.publisher("", queue).send(1)
    pulled = await mq.pull(queue)
    assert pulled is not None
    for settle in (pulled.ack, pulled.requeue):
        assert isinstance(await on_another_loop(settle), ConfigurationError)
    assert await pulled.ack()


@pytest.mark.parametrize("verb", VERBS)
async def test_a_forked_process_is_refused_at_once(api: Api, verb: str) -> None:
    mq, queue = await ready(api)
    told = in_a_fork(lambda: begun(VERBS[verb](inner(mq), queue)))
    assert told.startswith("ConfigurationError: acemq:")
    assert f"opened in process {os.getpid()}" in told
    await works(mq, queue)


async def test_a_forked_process_may_leave_the_block_that_it_was_forked_in(api: Api) -> None:
    """What ends the process is not hidden by what closing would raise."""
    mq, queue = await ready(api)
    for opened in (inner(mq), inner(mq.consumers[0])):
        leave = getattr(opened, "__exit__", None) or opened.__aexit__
        leaving = leave  # bound now: a closure in a loop
        # called before the next turn of the loop
        assert in_a_fork(lambda: begun(leaving(SystemExit, SystemExit(), None))) == "nothing"  # noqa: B023
    await works(mq, queue)


async def on_another_loop(verb: Callable[[], Awaitable[Any]]) -> BaseException | None:
    """What a call raises on an event loop of another thread."""
    raised: list[BaseException | None] = []

    async def call() -> None:
        await asyncio.wait_for(verb(), 5.0)

    def work() -> None:
        try:
            asyncio.run(call())
        except BaseException as failure:
            raised.append(failure)

    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        await asyncio.sleep(0.01)
    return raised[0] if raised else None


def inner(face: Any) -> Any:
    """What the user of the flavour holds."""
    return getattr(face, "_inner", face)


def begun(called: Any) -> None:
    """Runs a coroutine up to its first wait; a blocking call has run already."""
    if asyncio.iscoroutine(called):
        try:
            cast(Any, called).send(None)
        except StopIteration:
            return
        called.close()
        raise AssertionError("it waited")


def in_a_fork(work: Callable[[], None]) -> str:
    """What it raises in a process forked now, as ``Type: text``; ``nothing`` otherwise."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # there are threads, Python 3.12 says
        child = os.fork()
    if not child:
        try:
            work()
            told = "nothing"
        except BaseException as failure:
            told = f"{type(failure).__name__}: {failure}"
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        told = answer.read().decode()
    os.waitpid(child, 0)
    return told
