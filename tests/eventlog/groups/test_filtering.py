"""One lane of many: the broker leaves the others out, and nothing else changes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from acemq_amqp.core.connection import Connection as CoreConnection
from acemq_amqp.core.reading import StreamEnds
from acemq_amqp.eventlog import EventLog, Lag, LogQueue, LogReplaced, attached, shelf
from tests.core.arrivals import arrival
from tests.eventlog.groups.scene import Scene, in_memory, on_servers

_FROM = 20
_EACH = 60


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """A backlog begins early; which lanes the broker was asked for."""
    monkeypatch.setattr(attached, "FILTERED_FROM", _FROM)
    monkeypatch.setattr(shelf, "TRAILING", _FROM // 4)
    lanes: list[Sequence[str]] = []
    read = CoreConnection.read

    async def noted(self: CoreConnection, *given: Any, **options: Any) -> Any:
        if options.get("lanes"):
            lanes.append(options["lanes"])
        return await read(self, *given, **options)

    monkeypatch.setattr(CoreConnection, "read", noted)
    return lanes


async def filled(scene: Scene, lanes: Sequence[str] = ("b", "a", "c")) -> EventLog:
    """A log where lanes take turns, each with numbers that rise."""
    client = await scene.open()
    for n in range(0, _EACH, 4):
        for lane in lanes:
            queue = client.queue(scene.log).partition(lane)
            await queue.push([{"data": n + more} for more in range(4)])
    return client


async def emptied(client: EventLog, queue: LogQueue) -> list[Any]:
    """All that pops give, acknowledged as it comes."""
    seen: list[Any] = []
    while popped := await queue.batch(7).pop():
        seen += [message.data for message in popped]
        await client.ack(popped)
    return seen


@on_servers
async def test_every_lane_gives_all_it_has_alone_and_the_group_has_caught_up_then(
    scene: Scene, asked: list[Sequence[str]]
) -> None:
    await filled(scene)
    for lane in ("a", "c", "b"):
        client = await scene.open()  # a process of its own
        assert await emptied(client, scene.reads(client).partition(lane)) == [*range(_EACH)]
    assert ["a"] in asked
    client = await scene.open()
    assert await scene.reads(client).lag() == Lag(0)
    await client.queue(scene.log).partition("a").push({"data": "next"})
    assert await emptied(client, scene.reads(client).partition("a")) == ["next"]
    assert await emptied(client, scene.reads(client)) == []


@on_servers
async def test_others_are_where_they_were_whoever_reads_a_lane(scene: Scene) -> None:
    client = await filled(scene)
    one = scene.reads(client).partition("a")
    assert len(await emptied(client, one)) == _EACH
    await client.queue(scene.log).partition("a").push({"data": "more"})
    (more,) = await one.wait().pop()
    assert more.data == "more"
    await client.ack(more)
    again = await scene.open()
    assert await emptied(again, scene.reads(again).partition("a")) == []
    assert await scene.reads(again).lag() == Lag(2 * _EACH)
    seen: list[Any] = []
    await scene.reads(again).limit(2 * _EACH).consume(scene.noting(seen))
    assert sorted(seen) == sorted([*range(_EACH)] * 2)


@on_servers
async def test_a_lane_that_was_sought_back_is_read_again_alone(
    scene: Scene, asked: list[Sequence[str]]
) -> None:
    client = await filled(scene)
    await scene.reads(client).limit(3 * _EACH).consume(scene.noting([]))
    lane = scene.reads(client).partition("c")
    await lane.seek({"to": "first"})
    seen: list[Any] = []
    await lane.limit(_EACH).consume(scene.noting(seen))
    assert seen == [*range(_EACH)] and asked == [["c"]]
    assert await scene.reads(client).lag() == Lag(0)
    assert await emptied(client, scene.reads(await scene.open())) == []


@on_servers
async def test_a_lane_without_messages_is_looked_through_once(
    scene: Scene, asked: list[Sequence[str]]
) -> None:
    client = await filled(scene)
    empty = scene.reads(client).partition("empty")
    for _ in range(3):
        assert await empty.pop() == []
    assert asked == [["empty"]]
    await client.queue(scene.log).partition("empty").push({"data": "first"})
    (first,) = await empty.wait().pop()
    assert first.data == "first"
    await client.ack(first)
    assert await scene.reads(client).lag() == Lag(3 * _EACH)


@in_memory
async def test_a_lane_that_has_the_log_for_itself_takes_the_group_along(scene: Scene) -> None:
    client = await filled(scene, ["a"])
    assert await emptied(client, scene.reads(client).partition("a")) == [*range(_EACH)]
    position = await scene.position("g", scene.log)
    assert (position.next, position.lanes) == (_EACH + 1, ())


@in_memory
async def test_readers_of_lanes_miss_nothing_whoever_comes_and_goes(scene: Scene) -> None:
    chance = random.Random(7)
    lanes = ["a", "b", "c", "Default"]
    pushed: dict[str, list[int]] = {lane: [] for lane in lanes}
    seen: dict[str, list[int]] = {lane: [] for lane in lanes}
    client = await filled(scene, ["other"])
    for turn in range(60):
        lane = chance.choice(lanes)
        data = [turn * 100 + n for n in range(chance.randrange(1, 30))]
        await client.queue(scene.log).partition(lane).push([{"data": n} for n in data])
        pushed[lane] += data
        if chance.random() < 0.3:
            client = await scene.open()
        lane = chance.choice(lanes)
        popped = await scene.reads(client).partition(lane).batch(chance.randrange(1, 60)).pop()
        seen[lane] += [message.data for message in popped]
        await client.ack(popped)
    for lane in lanes:
        seen[lane] += await emptied(client, scene.reads(client).partition(lane))
    assert seen == pushed
    assert await scene.reads(client).lag() == Lag(_EACH)


@in_memory
async def test_a_lane_that_stands_past_the_end_is_in_another_log(scene: Scene) -> None:
    client = await filled(scene, ["a"])
    await scene.store().create("g", scene.log, 0, "")
    await scene.store().seek("g", scene.log, 500, "", "a")
    with pytest.raises(LogReplaced):
        await scene.reads(client).partition("a").pop()


class _Stub:
    """A stream that begins at an offset, and a reader that is given two messages of it."""

    stream = "s"

    def __init__(self, oldest: int) -> None:
        self._ends = StreamEnds(oldest, 100, "")

    async def ends(self, stream: str) -> StreamEnds:
        return self._ends

    async def take(self, most: int, deadline: float | None) -> list[Any]:
        return [arrival({"x-stream-offset": offset}) for offset in (20, 60)]


def _filtered(oldest: int) -> tuple[attached.Filtered, attached.Gaps]:
    stub: Any = _Stub(oldest)
    gaps = attached.Gaps("skip")
    source = attached.Source(stub, stub, gaps)
    return attached.Filtered(source, "g", stub, shelf.Seam(10, ""), 100), gaps


@pytest.mark.parametrize(("oldest", "missed"), [(0, 0), (10, 0), (15, 5), (20, 10), (50, 39)])
async def test_what_is_left_out_is_no_gap_and_what_retention_may_have_taken_is(
    oldest: int, missed: int
) -> None:
    stands, gaps = _filtered(oldest)
    assert [record.offset for record in await stands.take(9, None)] == [20, 60]
    assert gaps.missed == missed
