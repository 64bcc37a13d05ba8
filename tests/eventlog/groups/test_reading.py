"""Groups that read a log: from where they begin, to where they are told to end."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog import Lag, LogMessage, Offset
from tests.contract.waiting import until
from tests.eventlog.groups.scene import Scene, everywhere, has, in_memory, on_servers


@everywhere
async def test_groups_read_the_same_messages_in_order_and_independently(scene: Scene) -> None:
    queue = await scene.queue("one", count=30)
    seen: list[Any] = []
    await queue.limit(30).consume(scene.noting(seen))
    assert seen == list(range(30))
    assert await queue.lag() == Lag(0)
    again: list[Any] = []
    other = scene.reads(await scene.open(), "two")
    await other.limit(12).consume(scene.noting(again))
    assert again == list(range(12))
    assert await other.lag() == Lag(18)
    await other.limit(18).consume(scene.noting(again))
    assert again == list(range(30))


@on_servers
async def test_a_message_tells_what_it_is(scene: Scene) -> None:
    client = await scene.open()
    result = await client.queue(scene.log).partition("acme").push({"data": {"n": 1}})
    found: list[LogMessage] = []

    async def keep(message: LogMessage) -> None:
        found.append(message)

    await scene.reads(client).limit(1).consume(scene.handler(keep))
    (message,) = found
    assert message["data"] == message.data == {"n": 1}
    assert (message.partition, message.group, message.queue) == ("acme", "g", scene.log)
    assert (message.id, message.offset, message.attempt) == (result.message_id, 1, 1)
    assert message.time is not None and abs(datetime.now(UTC) - message.time) < timedelta(minutes=1)
    assert dict(message) == {name: message[name] for name in message}
    assert message.envelope.id == message.id and message.body == b'{"n":1}'
    with pytest.raises(KeyError):
        message["payload"]


@on_servers
async def test_lists_are_handed_over_without_each(scene: Scene) -> None:
    client = await scene.open()
    await client.queue(scene.log).push([{"data": n} for n in range(25)])
    seen: list[Any] = []
    queue = client.queue(scene.log).group("g").subscription_mode("all").batch(10).limit(25)
    await queue.consume(scene.noting(seen))
    assert [n for some in seen for n in some] == list(range(25))
    assert max(map(len, seen)) <= 10


@everywhere
async def test_a_limit_is_a_total_over_several_streams(scene: Scene) -> None:
    client = await scene.open()
    log = client.queue(scene.log).config({"streams": 3})
    for n in range(12):
        await log.partition(f"lane-{n}").push([{"data": (n, k)} for k in range(5)])
    seen: list[Any] = []
    queue = scene.reads(client).limit(47)
    await queue.consume(scene.noting(seen))
    assert len(seen) == 47
    assert await queue.lag() == Lag(13)
    await scene.reads(client).limit(13).consume(scene.noting(seen))
    assert len(seen) == 60 and len({tuple(each) for each in seen}) == 60
    for n in range(12):
        assert [k for lane, k in seen if lane == n] == list(range(5))


@on_servers
async def test_new_is_exact_while_others_push(scene: Scene) -> None:
    client = await scene.open()
    pushing = client.queue(scene.log)
    pushed: list[int] = []
    stop = asyncio.Event()

    async def push() -> None:
        while not stop.is_set():
            number = len(pushed)
            await pushing.push({"data": number})
            pushed.append(number)

    task = asyncio.create_task(push())
    await until(lambda: len(pushed) > 5, "some messages")
    for group in ("a", "b", "c"):
        seen: list[Any] = []
        before = len(pushed)  # confirmed: out
        reader = await scene.reads(client, group, "new").start(scene.noting(seen))
        after = len(pushed) + 1  # the one in between may be in or out
        await has(seen, 5)
        await reader.stop()
        assert before <= seen[0] <= after
        assert seen == list(range(seen[0], seen[0] + len(seen)))
    stop.set()
    await task


@on_servers
async def test_a_group_begins_at_an_offset_or_a_time(scene: Scene) -> None:
    client = await scene.open()
    await client.queue(scene.log).push([{"data": n} for n in range(5)])
    before = datetime.now(UTC) - timedelta(hours=1)
    for group, mode, first in (("a", Offset(3), 2), ("b", 5, 4), ("c", before.isoformat(), 0)):
        seen: list[Any] = []
        await scene.reads(client, group, mode).limit(5 - first).consume(scene.noting(seen))
        assert seen == list(range(first, 5)), mode
    with pytest.raises(ConfigurationError, match="past the end"):
        await scene.reads(client, "d", 1000).consume(scene.noting([]))


@on_servers
async def test_a_mode_counts_for_a_new_group_only(scene: Scene) -> None:
    queue = await scene.queue(mode=1, count=3)
    seen: list[Any] = []
    await queue.limit(2).consume(scene.noting(seen))
    await queue.subscription_mode("all").limit(1).consume(scene.noting(seen))
    assert seen == [0, 1, 2]


@on_servers
async def test_reading_ends_when_it_was_idle(scene: Scene) -> None:
    queue = await scene.queue(count=3)
    seen: list[Any] = []
    await queue.idle_millis(300).consume(scene.noting(seen))
    assert seen == [0, 1, 2]
    assert await queue.lag() == Lag(0)


@on_servers
async def test_one_lane_is_read_behind_more_of_others_than_memory_takes(scene: Scene) -> None:
    client = await scene.open()
    log = client.queue(scene.log)
    await log.partition("big").push([{"data": n} for n in range(2600)])
    await log.partition("small").push([{"data": n} for n in range(5)])
    seen: list[Any] = []
    queue = scene.reads(client).partition("small")
    await queue.idle_millis(200).consume(scene.noting(seen))
    assert seen == list(range(5))
    assert await queue.lag() == Lag(0)
    assert await scene.reads(client).lag() == Lag(2600)
    await scene.reads(client).limit(2600).consume(scene.noting(seen))  # and the others' follow
    assert seen[5:] == list(range(2600))


@on_servers
async def test_stop_ends_after_the_message_in_hand_and_commits_it(scene: Scene) -> None:
    queue = await scene.queue(count=50)
    seen: list[Any] = []
    gate = scene.gate()

    def handle(message: LogMessage) -> None:
        seen.append(message.data)
        gate.hold()

    reader = await queue.start(handle)
    await gate.holds(1)
    assert reader.running
    stopping = asyncio.create_task(reader.stop())
    await until(lambda: not reader.running, "it was told to end")
    gate.open()
    await stopping
    assert seen == [0]
    assert await queue.lag() == Lag(49)
    await queue.limit(49).consume(scene.noting(seen))
    assert seen == list(range(50))


@in_memory
async def test_a_client_that_closes_ends_its_readers(scene: Scene) -> None:
    client = await scene.open()
    await client.queue(scene.log).push({"data": 0})
    seen: list[Any] = []
    reader = await scene.reads(client).start(scene.noting(seen))
    await has(seen, 1)
    assert await client.close()
    assert not reader.running
    await reader.ended()
    with pytest.raises(ConfigurationError, match="closed"):
        await client.queue(scene.log).push({"data": 1})
