"""A pattern that is given a connection of the other flavour, or none, says so at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from acemq_amqp import ConfigurationError, blocking, connect, patterns
from acemq_amqp.blocking import patterns as blocking_patterns
from acemq_amqp.patterns import InMemoryOutboxStore, OutboxRecord, record
from acemq_amqp.patterns.waiting import driven

ASYNC: dict[str, Callable[[Any], Any]] = {
    "relay": lambda mq: patterns.OutboxRelay(mq, InMemoryOutboxStore()),
    "replay": lambda mq: patterns.replay(mq, "q.dlq"),
    "browse": lambda mq: patterns.browse(mq, "q"),
    "group": lambda mq: patterns.ConsumerGroup.start(mq, "q", 1, print),
}
BLOCKING: dict[str, Callable[[Any], Any]] = {
    "relay": lambda mq: blocking_patterns.OutboxRelay(mq, InMemoryOutboxStore()),
    "replay": lambda mq: blocking_patterns.replay(mq, "q.dlq"),
    "browse": lambda mq: blocking_patterns.browse(mq, "q"),
    "group": lambda mq: blocking_patterns.ConsumerGroup.start(mq, "q", 1, print),
}


@pytest.fixture
async def of_async() -> AsyncIterator[Any]:
    async with connect("memory://flavours") as mq:
        yield mq


@pytest.fixture
async def of_blocking() -> AsyncIterator[Any]:
    mq = await asyncio.to_thread(blocking.connect, "memory://flavours")
    yield mq
    await asyncio.to_thread(mq.close)


async def outcome(call: Callable[[Any], Any], given: Any) -> Any:
    returned = call(given)
    return await returned if asyncio.iscoroutine(returned) else returned


@pytest.mark.parametrize("call", ASYNC.values(), ids=ASYNC)
async def test_the_async_ones_want_an_async_connection(
    call: Callable[[Any], Any], of_blocking: Any
) -> None:
    with pytest.raises(ConfigurationError, match="an async connection is wanted"):
        await outcome(call, of_blocking)
    for given in (None, "amqp://localhost/"):
        with pytest.raises(ConfigurationError, match="a connection is wanted, got"):
            await outcome(call, given)


@pytest.mark.parametrize("call", BLOCKING.values(), ids=BLOCKING)
async def test_the_blocking_ones_want_a_blocking_connection(
    call: Callable[[Any], Any], of_async: Any
) -> None:
    with pytest.raises(ConfigurationError, match="a blocking connection is wanted"):
        call(of_async)
    for given in (None, "amqp://localhost/"):
        with pytest.raises(ConfigurationError, match="a connection is wanted, got"):
            call(given)


async def test_nothing_is_marked_by_a_relay_of_the_other_flavour(of_async: Any) -> None:
    store = InMemoryOutboxStore()
    store.add(OutboxRecord("m-1", "", "q", b"{}"))
    with pytest.raises(ConfigurationError):
        blocking_patterns.OutboxRelay(of_async, store)
    assert driven(store.status()).waiting == 1


@pytest.mark.parametrize("queue", [None, 5, ""])
async def test_a_queue_without_a_name_is_refused(of_async: Any, queue: Any) -> None:
    for call in (patterns.replay, patterns.browse):
        with pytest.raises(ConfigurationError, match="queue"):
            await call(of_async, queue)


async def test_a_record_is_checked_when_it_is_made(of_async: Any) -> None:
    for connection in (None, object()):
        with pytest.raises(ConfigurationError, match="a connection is wanted, got"):
            record(connection, "", "q", 1)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="codec= wants"):
        record(of_async, "", "q", 1, codec=5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="goes nowhere"):
        record(of_async, "", "", 1)
    with pytest.raises(ConfigurationError, match=r"an exchange .* is over 255 bytes"):
        record(of_async, "x" * 300, "k", 1)
