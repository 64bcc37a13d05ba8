"""Members of a group: one reads a stream at a time, and another takes over."""

from __future__ import annotations

import asyncio
from typing import Any

from acemq_amqp.eventlog import Lag, LogMessage
from tests.contract.waiting import until
from tests.eventlog.groups.scene import Scene, has, in_memory, on_servers


@on_servers
async def test_one_member_reads_and_another_takes_over_when_it_leaves(scene: Scene) -> None:
    client = await scene.open()
    await client.queue(scene.log).push([{"data": n} for n in range(4)])
    one: list[Any] = []
    two: list[Any] = []
    first = await scene.reads(client).start(scene.noting(one))
    await has(one, 4)
    second = await scene.reads(await scene.open()).start(scene.noting(two))
    await client.queue(scene.log).push({"data": 4})
    await has(one, 5)
    await first.stop()
    await client.queue(scene.log).push({"data": 5})
    await has(two, 1)
    await second.stop()
    assert (one, two) == ([0, 1, 2, 3, 4], [5])


@on_servers
async def test_what_a_dead_member_left_is_read_once_its_lease_has_run_out(scene: Scene) -> None:
    queue = await scene.queue(count=3)
    gate = scene.gate()

    def stuck(message: LogMessage) -> None:
        gate.hold()

    dead = await queue.start(stuck)
    await gate.holds(1)
    seen: list[Any] = []
    living = await scene.reads(await scene.open()).start(scene.noting(seen))
    assert seen == []
    scene.pass_time(31)
    await has(seen, 3)
    gate.open()  # it wakes after its lease, and what it commits changes nothing
    await dead.stop()
    await living.stop()
    assert seen == [0, 1, 2]
    assert await queue.lag() == Lag(0)


@in_memory
async def test_members_that_share_streams_all_end_when_they_are_idle(scene: Scene) -> None:
    client = await scene.open()
    await client.queue(scene.log).config({"streams": 2}).create()
    readers = [scene.reads(await scene.open()).idle_millis(100) for _ in range(2)]
    seen: list[Any] = []
    for n in range(6):
        await client.queue(scene.log).partition(f"lane-{n}").push({"data": n})
    async with asyncio.timeout(30):
        await asyncio.gather(*(each.consume(scene.noting(seen)) for each in readers))
    assert sorted(seen) == list(range(6))


@in_memory
async def test_idleness_does_not_count_while_a_dead_member_has_the_rest(scene: Scene) -> None:
    queue = await scene.queue(count=2)
    gate = scene.gate()
    dead = await queue.start(lambda message: gate.hold())
    await gate.holds(1)
    seen: list[Any] = []
    lane = scene.reads(await scene.open()).partition("Default").idle_millis(1)
    reader = await lane.start(scene.noting(seen))
    whole = await scene.reads(await scene.open()).idle_millis(1).start(scene.noting(seen))
    popped = scene.reads(await scene.open()).wait().timeout_millis(400)
    assert await popped.pop() == []  # in that time both have looked
    assert reader.running and whole.running
    await reader.stop()
    scene.pass_time(31)
    await whole.ended()
    assert seen == [0, 1]
    gate.open()
    await dead.stop()


@on_servers
async def test_lanes_of_a_group_are_read_side_by_side(scene: Scene) -> None:
    client = await scene.open()
    for lane in ("a", "b"):
        queue = client.queue(scene.log).partition(lane)
        await queue.push([{"data": f"{lane}{n}"} for n in (0, 1)])
    gate = scene.gate()
    a = scene.reads(client).partition("a").limit(2)
    reader = await a.start(lambda message: gate.hold())
    await gate.holds(1)
    seen: list[Any] = []
    await scene.reads(client).partition("b").limit(2).consume(scene.noting(seen))
    assert seen == ["b0", "b1"]
    whole = await scene.reads(client).start(scene.noting(seen))  # waits until no lane is leased
    gate.open()
    await reader.ended()
    await client.queue(scene.log).partition("c").push({"data": "c0"})
    await has(seen, 3)
    await whole.stop()
    assert seen == ["b0", "b1", "c0"]
    assert await scene.reads(client).lag() == Lag(0)


@on_servers
async def test_a_lease_lasts_as_long_as_the_log_says(scene: Scene) -> None:
    queue = (await scene.queue(count=1)).config({"lease_time": 2})
    assert len(await queue.pop()) == 1
    other = scene.reads(await scene.open()).config({"lease_time": 2})
    assert await other.pop() == []
    scene.pass_time(2.1)
    assert await until(other.pop, "the message")
