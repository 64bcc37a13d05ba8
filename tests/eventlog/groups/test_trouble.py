"""Broker, store and streams that go away, or are not what they were."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from acemq_amqp import Topology
from acemq_amqp.errors import BrokerError, ConfigurationError, NotFound, StoreError
from acemq_amqp.eventlog import Lag, LogMessage, LogReplaced, RetentionPassed
from acemq_amqp.eventlog.memory_store import InMemoryLogStore
from acemq_amqp.retention import StreamRetention
from tests.contract.waiting import until
from tests.eventlog.groups.scene import Scene, everywhere, has, in_memory, on_servers


@on_servers
async def test_after_a_lost_connection_a_reader_goes_on_after_what_it_handled(scene: Scene) -> None:
    queue = await scene.queue(count=40)
    seen: list[Any] = []
    gate = scene.gate()

    def handle(message: LogMessage) -> None:
        seen.append(message.data)
        if len(seen) == 20:
            gate.hold()

    reader = await queue.start(handle)
    await gate.holds(1)
    await scene.cut()
    gate.open()
    await has(seen, 40)
    pushing = await scene.open()
    await pushing.queue(scene.log).push([{"data": 40}])
    await has(seen, 41)
    await reader.stop()
    assert seen == list(range(41))


@on_servers
async def test_pops_and_lanes_go_on_after_a_lost_connection(scene: Scene) -> None:
    queue = await scene.queue(count=6)
    client = scene.client_of(queue)
    await client.ack(await queue.batch(2).pop())
    await scene.cut()

    async def popped() -> list[LogMessage]:
        try:
            return await queue.batch(2).pop()
        except BrokerError:  # told, and never an empty list
            return []

    messages = await until(popped, "messages")
    assert [message.data for message in messages] == [2, 3]
    await client.ack(messages)
    seen: list[Any] = []
    await scene.reads(await scene.open()).partition("Default").limit(2).consume(scene.noting(seen))
    assert seen == [4, 5]


class Flaky(InMemoryLogStore):
    """A database that can be away."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.asked = 0

    async def commit(self, *given: Any) -> bool:
        self._ask()
        return await super().commit(*given)

    async def hold(self, *given: Any) -> Any:
        self._ask()
        return await super().hold(*given)

    async def position(self, *given: Any) -> Any:
        self._ask()
        return await super().position(*given)

    async def lease_lanes(self, *given: Any) -> Any:
        self._ask()
        return await super().lease_lanes(*given)

    def _ask(self) -> None:
        self.asked += 1
        if self.away:
            raise StoreError("acemq: the database is away")


@in_memory
@pytest.mark.parametrize("lane", [None, "Default"])
async def test_a_reader_goes_on_when_the_database_is_back(scene: Scene, lane: str | None) -> None:
    store = Flaky()
    client = await scene.open(store)
    await client.queue(scene.log).push([{"data": n} for n in range(3)])
    queue = scene.reads(client)
    if lane is not None:
        queue.partition(lane)
    seen: list[Any] = []
    reader = await queue.start(scene.noting(seen))
    await has(seen, 3)
    store.away, store.asked = True, 0
    await client.queue(scene.log).push({"data": 3})
    await until(lambda: store.asked > 1, "the database was asked")
    with pytest.raises(StoreError):
        await queue.lag()
    store.away = False
    await until(lambda: 3 in seen, "the message that came meanwhile")
    await reader.stop()
    assert set(seen) == {0, 1, 2, 3} and seen[:3] == [0, 1, 2]
    assert await queue.lag() == Lag(0)


@in_memory
async def test_a_limit_is_reached_also_where_a_lease_was_lost_on_the_way(scene: Scene) -> None:
    store = Flaky()
    client = await scene.open(store)
    await client.queue(scene.log).push([{"data": n} for n in range(6)])
    seen: list[Any] = []

    def handle(message: LogMessage) -> None:
        seen.append(message.data)
        store.away = len(seen) == 3  # its commit fails, and what it had claimed is given back

    async def coming_back() -> None:
        while True:
            await asyncio.sleep(0.01)
            store.away = False

    back = asyncio.create_task(coming_back())
    await scene.reads(client).each(1).limit(6).consume(handle)
    back.cancel()
    assert len(seen) == 6


@on_servers
async def test_a_stream_made_anew_behind_its_readers_is_told(scene: Scene) -> None:
    queue = await scene.queue(count=5)
    await queue.limit(5).consume(scene.noting([]))
    broker = await scene.broker()
    await broker.delete_queue(scene.log)
    await (await scene.open()).queue(scene.log).push([{"data": n} for n in range(9)])
    fresh = scene.reads(await scene.open())
    with pytest.raises(LogReplaced, match=r"deleted and made again. Seek the group"):
        await fresh.consume(scene.noting([]))
    with pytest.raises(LogReplaced):
        await fresh.pop()
    with pytest.raises(LogReplaced):
        await scene.reads(await scene.open()).partition("Default").consume(scene.noting([]))
    seen: list[Any] = []
    await fresh.seek({"to": "first"})
    await fresh.limit(9).consume(scene.noting(seen))
    assert seen == list(range(9))


@on_servers
async def test_a_stream_deleted_under_its_readers_ends_them(scene: Scene) -> None:
    queue = await scene.queue(count=2)
    seen: list[Any] = []
    reader = await queue.start(scene.noting(seen))
    await has(seen, 2)
    await (await scene.broker()).delete_queue(scene.log)
    with pytest.raises(NotFound):
        await reader.ended()
    with pytest.raises(BrokerError):
        await queue.pop()


#: so small that a few messages fill a segment
_SMALL = StreamRetention(max_bytes=2_000_000, segment_bytes=1_000_000)


async def trimmed(scene: Scene, group: str) -> int:
    """Pushes until retention has passed where a group stands; gives how many were pushed."""
    client = await scene.open()
    pushed = 0

    async def passed() -> bool:
        nonlocal pushed
        await client.queue(scene.log).push([{"data": "x" * 20_000} for _ in range(50)])
        pushed += 50
        (status,) = await client.admin.consumer_groups(scene.log)
        return status.lag is not None and status.lag.messages < pushed

    await until(passed, "retention took what was not read")
    return pushed


@pytest.mark.server
@pytest.mark.parametrize("place", ["sqlite"])
async def test_what_retention_took_is_told_or_counted_and_segments_are_no_gap(scene: Scene) -> None:
    await (await scene.broker()).declare(Topology().stream(scene.log, _SMALL))
    queue = await scene.queue("g", mode="new")
    assert await queue.pop() == []
    pushed = await trimmed(scene, "g")
    for reads in (scene.reads(await scene.open()), scene.reads(await scene.open())):
        with pytest.raises(RetentionPassed, match="on_gap='skip'") as told:
            await reads.consume(scene.noting([]))
        assert told.value.until > told.value.first
    with pytest.raises(RetentionPassed):
        await scene.reads(await scene.open()).pop()
    back = scene.reads(await scene.open())
    for count in (0, 10):  # not to where nothing is
        (moved,) = await back.seek({"back": count, "dry_run": True})
        assert moved.after >= told.value.until
    seen: list[Any] = []
    skipping = scene.reads(await scene.open()).config({"on_gap": "skip"})
    reader = await skipping.start(scene.noting(seen))
    left = (await skipping.lag()).messages
    await has(seen, left)
    await reader.stop()
    # what is missing in between are segments' own offsets, and none of them was counted
    assert 0 <= reader.missed - (pushed - len(seen)) <= 10
    await scene.reads(await scene.open(), "again").idle_millis(1).consume(scene.noting(seen))


@everywhere
async def test_a_broker_that_is_not_there_is_told(scene: Scene) -> None:
    queue = await scene.queue(count=1)
    assert len(await queue.pop()) == 1
    client = scene.client_of(queue)
    await client.close()
    with pytest.raises(ConfigurationError, match="closed"):
        await queue.pop()
