"""Code of event logs on a connection of either flavour: it is written over the core's."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from acemq_amqp import Connection, Topology
from acemq_amqp.core import connection as core
from acemq_amqp.core.ports import Arrival
from acemq_amqp.core.reading import StreamReader, offset_of
from acemq_amqp.flavours.threads import drive
from acemq_amqp.offsets import First, Start
from tests.contract import threads
from tests.contract.api import Api
from tests.contract.waiting import WITHIN

T = TypeVar("T")


async def on(mq: Connection, work: Callable[[core.Connection], Coroutine[Any, Any, T]]) -> T:
    """What a coroutine over the core gives: awaited, or driven to its end in a thread."""
    if not isinstance(mq, threads.Awaited):
        return await work(mq)
    inner: core.Connection = mq._inner._core
    result: T = await threads.run(lambda: drive(work(inner)))
    return result


async def new_stream(api: Api, mq: Connection, count: int = 0) -> str:
    """A stream with so many messages, ``0``, ``1`` and on, each stored by itself."""
    name = api.name("log")
    await mq.declare(Topology().stream(name))
    publisher = mq.publisher("", name)
    for number in range(count):
        await publisher.send(number)
    return name


async def taken(mq: core.Connection, reader: StreamReader, count: int) -> list[Arrival]:
    """So many messages, however they are batched."""
    deadline = mq.work.clock.monotonic() + WITHIN
    got: list[Arrival] = []
    while len(got) < count:
        batch = await reader.take(count - len(got), deadline)
        assert batch, f"{len(got)} of {count} messages came"
        got += batch
    return got


async def read(
    mq: core.Connection, stream: str, count: int, start: Start = First, **options: Any
) -> list[Arrival]:
    """So many messages from a place on."""
    reader = await mq.read(stream, start, **options)
    try:
        return await taken(mq, reader, count)
    finally:
        await reader.close()


def offsets(arrivals: list[Arrival]) -> list[int]:
    return [offset_of(arrival) for arrival in arrivals]
