"""Groups that are moved, looked at and deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from acemq_amqp.errors import ConfigurationError, NotFound
from acemq_amqp.eventlog import Lag, LogMessage, LogReplaced, Moved, moving
from tests.eventlog.groups.scene import Scene, everywhere, has, in_memory, on_servers


@everywhere
async def test_a_group_is_moved_and_others_are_not(scene: Scene) -> None:
    client = await scene.open()
    await client.queue(scene.log).push([{"data": n} for n in range(6)])
    for group in ("one", "two"):
        await scene.reads(client, group).limit(6).consume(scene.noting([]))
    an_hour_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    seek = client.admin.seek_consumer_group
    places: list[tuple[dict[str, Any], int]] = [
        ({"timestamp": an_hour_ago}, 0),
        ({"to": "first"}, 0),
        ({"offset": 3}, 2),
        ({"back": 1}, 1),  # of where it stands then, at 2
        ({"to": "next"}, 6),
    ]
    for options, first in places:
        before = await scene.reads(client, "one").lag()
        told = await seek("one", scene.log, {**options, "dry_run": True})
        assert await scene.reads(client, "one").lag() == before
        assert await seek("one", scene.log, options) == told
        assert await scene.reads(client, "one").lag() == Lag(6 - first), options
    assert await scene.reads(client, "two").lag() == Lag(0)
    assert told == [Moved(scene.log, None, 2, 7)] or told[0].after >= 7


@on_servers
async def test_one_lane_is_moved_alone(scene: Scene) -> None:
    client = await scene.open()
    for lane in ("a", "b"):
        queue = client.queue(scene.log).partition(lane)
        await queue.push([{"data": lane + str(n)} for n in range(3)])
    seen: list[Any] = []
    await scene.reads(client).limit(6).consume(scene.noting(seen))
    await scene.reads(client).partition("a").seek({"back": 2})
    assert await scene.reads(client).lag() == Lag(2)
    assert await scene.reads(client).partition("b").lag() == Lag(0)
    again = await scene.reads(client).batch(10).pop()
    assert [message.data for message in again] == ["a1", "a2"]
    await client.ack(again)
    assert await scene.reads(client).pop() == []
    # nothing of the lane is behind any more, so what retention takes does not concern the group
    (group,) = await client.admin.consumer_groups(scene.log)
    assert group.lag == Lag(0)
    position = await scene.position("g", scene.log)
    assert not [row for row in position.lanes if row.next < position.next]


@everywhere
async def test_a_reader_at_rest_sees_that_its_group_was_moved(scene: Scene) -> None:
    queue = await scene.queue(count=3)
    seen: list[Any] = []
    reader = await queue.start(scene.noting(seen))
    await has(seen, 3)
    await scene.reads(await scene.open()).seek({"to": "first"})
    await has(seen, 6)
    await reader.stop()
    assert seen == [0, 1, 2] * 2
    assert await queue.lag() == Lag(0)


@on_servers
async def test_a_seek_abandons_the_batch_in_flight(scene: Scene) -> None:
    queue = await scene.queue(count=3)
    seen: list[Any] = []
    gate = scene.gate()

    def handle(message: LogMessage) -> None:
        seen.append(message.data)
        if len(seen) == 3:
            gate.hold()

    reader = await queue.start(handle)
    await gate.holds(1)
    moving = scene.reads(await scene.open())
    await moving.seek({"to": "first"})
    assert await moving.lag() == Lag(3)
    gate.open()  # and the late acknowledgement changes nothing
    await has(seen, 6)
    await reader.stop()
    assert seen == [0, 1, 2] * 2
    assert await moving.lag() == Lag(0)


@on_servers
async def test_a_late_ack_after_a_seek_changes_nothing(scene: Scene) -> None:
    queue = await scene.queue(count=3)
    messages = await queue.batch(3).pop()
    assert len(messages) == 3
    await queue.seek({"to": "next"})
    with pytest.raises(Exception, match="was sought"):
        await scene.client_of(queue).ack(messages)
    assert await queue.lag() == Lag(0)
    assert await queue.pop() == []


@on_servers
async def test_groups_of_a_log_are_listed(scene: Scene) -> None:
    queue = await scene.queue("busy", count=4)
    await scene.reads(await scene.open(), "idle").limit(1).consume(scene.noting([]))
    gate = scene.gate()
    reader = await queue.start(lambda message: gate.hold())
    await gate.holds(1)
    busy, idle = await scene.client_of(queue).admin.consumer_groups(scene.log)
    assert (busy.group, busy.readers, busy.lag) == ("busy", (scene.log,), Lag(4))
    assert (idle.group, idle.readers, idle.lag) == ("idle", (), Lag(3))
    assert idle.stands == {scene.log: 2}
    gate.open()
    await reader.stop()


@on_servers
async def test_a_group_that_is_deleted_ends_its_reader_and_can_begin_anew(scene: Scene) -> None:
    queue = await scene.queue(count=2)
    seen: list[Any] = []
    reader = await queue.start(scene.noting(seen))
    await has(seen, 2)
    await scene.reads(await scene.open()).delete()
    with pytest.raises(NotFound, match="group 'g'"):
        await reader.ended()
    with pytest.raises(ConfigurationError, match="no group 'g'"):
        await queue.lag()
    await queue.limit(2).consume(scene.noting(seen))
    assert seen == [0, 1, 0, 1]


@on_servers
async def test_a_log_that_is_deleted_ends_its_readers_and_can_be_made_anew(scene: Scene) -> None:
    client = await scene.open()
    await client.queue(scene.log).push([{"data": n} for n in range(3)])
    seen: list[Any] = []
    reader = await scene.reads(client).start(scene.noting(seen))
    await has(seen, 3)
    await client.queue(scene.log).delete()
    with pytest.raises(NotFound):
        await reader.ended()
    await client.queue(scene.log).delete()  # not an error
    await client.queue(scene.log).push({"data": "new"})
    await scene.reads(client).limit(1).consume(scene.noting(seen))
    assert seen == [0, 1, 2, "new"]


@in_memory
async def test_a_lane_that_was_moved_far_back_does_not_seem_to_have_caught_up(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "COUNTED", 5)
    client = await scene.open()
    for lane in ("a", "b"):
        queue = client.queue(scene.log).partition(lane)
        await queue.push([{"data": lane + str(n)} for n in range(6)])
    await scene.reads(client).limit(12).consume(scene.noting([]))
    await scene.reads(client).partition("a").seek({"to": "first"})
    for behind in (await scene.reads(client).lag(), await scene.reads(client).partition("a").lag()):
        assert behind.messages >= 6 and not behind.exact
    assert await scene.reads(client).partition("b").lag() == Lag(0)


@in_memory
async def test_what_cannot_be_sought_is_refused(scene: Scene) -> None:
    queue = await scene.queue(count=2)
    await queue.limit(2).consume(scene.noting([]))
    seek = scene.client_of(queue).admin.seek_consumer_group
    naive = datetime.now().isoformat()
    to_come = datetime.now(UTC) + timedelta(hours=1)
    bad: list[tuple[dict[str, Any], str]] = [
        ({"timestamp": naive}, "no zone"),
        ({"timestamp": to_come}, "not come yet"),
        ({"offset": 1000}, "past the end"),
        ({"offset": -1}, "0 or more"),
        ({"timestap": 1}, "did you mean 'timestamp'"),
        ({"to": "first", "back": 1}, "one place"),
        ({}, "one place"),
        ({"to": "first", "partition": 7}, "cannot be a lane"),
    ]
    for options, words in bad:
        with pytest.raises(ConfigurationError, match=words):
            await seek("g", scene.log, options)
    with pytest.raises(ConfigurationError, match="no group 'nobody'"):
        await seek("nobody", scene.log, {"to": "first"})
    with pytest.raises(ConfigurationError, match="window query"):
        await seek("acemq.query.q", scene.log, {"to": "first"})
    with pytest.raises(NotFound):
        await seek("g", f"{scene.log}.none", {"to": "first"})
    assert await queue.lag() == Lag(0)


@in_memory
async def test_offsets_of_a_log_of_several_streams_need_a_lane(scene: Scene) -> None:
    client = await scene.open()
    log = client.queue(scene.log).config({"streams": 2}).partition("a")
    await log.push([{"data": n} for n in range(3)])
    await scene.reads(client).partition("a").limit(3).consume(scene.noting([]))
    with pytest.raises(ConfigurationError, match="name a partition"):
        await scene.reads(client).seek({"offset": 1})
    (moved,) = await scene.reads(client).partition("a").seek({"offset": 1})
    assert (moved.partition, moved.after) == ("a", 1)
    # a lane of the other stream can be moved too: the group stands in all of them
    lanes = [f"lane-{n}" for n in range(10)]
    streams = set[str]()
    for lane in lanes:
        (told,) = await scene.reads(client).partition(lane).seek({"to": "next"})
        streams.add(told.stream)
    assert len(streams) == 2


@in_memory
@pytest.mark.parametrize("streams", [1, 2])
@pytest.mark.parametrize("count", [0, 1, 9])
async def test_a_group_of_a_log_that_was_made_anew_does_not_seem_to_have_caught_up(
    scene: Scene, streams: int, count: int
) -> None:
    client = await scene.open()
    queue = client.queue(scene.log).config({"streams": streams})
    await queue.push([{"data": n} for n in range(3)])
    await scene.reads(client).limit(3).consume(scene.noting([]))
    broker = await scene.broker()
    names = [scene.log] if streams == 1 else [f"{scene.log}.{n}" for n in range(streams)]
    for name in names:
        await broker.delete_queue(name)
    after = await scene.open()
    again = after.queue(scene.log).config({"streams": streams})
    await again.create()
    if count:
        await again.push([{"data": n} for n in range(count)])
    with pytest.raises(LogReplaced, match="deleted and made again"):
        await scene.reads(after).lag()
    with pytest.raises(LogReplaced, match="deleted and made again"):
        await scene.reads(after).seek({"back": 1})
    (group,) = await after.admin.consumer_groups(scene.log)
    assert (group.group, group.lag) == ("g", None)
    await scene.reads(after).seek({"to": "first"})
    assert await scene.reads(after).lag() == Lag(count)
