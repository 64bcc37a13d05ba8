"""Messages taken by hand: lanes leased to one, acknowledged in any order, given again."""

from __future__ import annotations

import asyncio

import pytest

from acemq_amqp.codecs.bytes import BytesCodec
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog import EventLog, Lag, LeaseLost, LogMessage, LogQueue
from tests.eventlog.groups.scene import Scene, everywhere, in_memory, on_servers


async def filled(scene: Scene, lanes: int = 2, each: int = 3) -> tuple[EventLog, LogQueue]:
    """A log with some messages in each of some lanes, to be popped."""
    client = await scene.open()
    for lane in range(lanes):
        queue = client.queue(scene.log).partition(f"lane-{lane}")
        await queue.push([{"data": n} for n in range(each)])
    return client, scene.reads(client)


def told(messages: list[LogMessage]) -> list[tuple[str, int]]:
    return [(message.partition[5:], message.data) for message in messages]


@everywhere
async def test_a_pop_leases_lanes_and_the_next_gets_others(scene: Scene) -> None:
    client, queue = await filled(scene)
    first = await queue.batch(2).pop()
    assert told(first) == [("0", 0), ("0", 1)]
    other = scene.reads(await scene.open())
    second = await other.batch(10).pop()
    assert told(second) == [("1", 0), ("1", 1), ("1", 2)]
    assert await other.pop() == []
    await client.ack(first)
    assert told(await other.batch(10).pop()) == [("0", 2)]
    assert await queue.lag() == Lag(4)


@on_servers
async def test_acks_come_in_any_order_and_count_once(scene: Scene) -> None:
    client, queue = await filled(scene, lanes=1, each=4)
    a, b, c, d = await queue.batch(4).pop()
    await client.ack(c)
    await client.ack(b)
    assert await queue.lag() == Lag(4)  # the first is missing
    await client.ack(a)
    assert await queue.lag() == Lag(1)
    with pytest.raises(LeaseLost, match="acknowledged before"):
        await client.ack(b)
    await client.ack(d, True, {"group": "g"})
    assert await queue.lag() == Lag(0)
    with pytest.raises(LeaseLost):
        await client.ack(d)
    assert await queue.pop() == []


@on_servers
async def test_what_is_not_acknowledged_comes_again_and_counts_attempts(scene: Scene) -> None:
    client, queue = await filled(scene, lanes=1)
    taken = await queue.batch(3).pop()
    assert [message.attempt for message in taken] == [1, 1, 1]
    scene.pass_time(31)
    with pytest.raises(LeaseLost):  # another has it by then
        (again,) = await scene.reads(await scene.open()).batch(3).pop()
        assert (again.data, again.attempt) == (0, 2)  # alone: it may have ended its reader
        await client.ack(taken)
    assert await queue.lag() == Lag(3)


@on_servers
async def test_one_that_is_given_back_too_often_is_a_dead_letter(scene: Scene) -> None:
    client = await scene.open()
    await client.queue(scene.log).push([{"data": "bad"}, {"data": "good"}])
    queue = scene.reads(client).config({"retry_limit": 2}).batch(1)
    for attempt in (1, 2, 3):
        (message,) = await queue.pop()
        assert (message.data, message.attempt) == ("bad", attempt)
        await client.ack(message, False, {"error": "no such account"})
    body, headers = await scene.dead_letter()
    assert body == b'"bad"'
    assert headers["x-acemq-error"] == "attempts exhausted after 3: no such account"
    assert (headers["x-acemq-attempt"], headers["acemq-log-group"]) == (3, "g")
    (message,) = await queue.pop()
    assert (message.data, message.attempt) == ("good", 1)


@on_servers
async def test_what_cannot_be_decoded_is_passed_and_is_a_dead_letter(scene: Scene) -> None:
    client = await scene.open()
    await client.queue(scene.log).push({"data": 1})
    await (await scene.broker()).publisher("", scene.log, codec=BytesCodec()).send(b"{")
    await client.queue(scene.log).push({"data": 2})
    queue = scene.reads(client).batch(10)
    (one,) = await queue.pop()
    await client.ack(one)
    (two,) = await queue.pop()
    assert (one.data, two.data) == (1, 2)
    body, headers = await scene.dead_letter()
    assert body == b"{" and "could not be decoded" in headers["x-acemq-error"]


@on_servers
async def test_a_lane_that_nobody_finishes_does_not_stop_the_others(scene: Scene) -> None:
    client = await scene.open()
    log = client.queue(scene.log)
    await log.partition("stuck").push([{"data": n} for n in range(2500)])
    await log.partition("next").push([{"data": n} for n in range(3)])
    queue = scene.reads(client)
    (held,) = await queue.batch(1).pop()
    others = await queue.batch(5).pop()
    assert (held.partition, [each.partition for each in others]) == ("stuck", ["next"] * 3)
    await client.ack(others)
    await client.ack(held)
    assert [each.data for each in await queue.batch(3).pop()] == [1, 2, 3]
    assert await scene.reads(client).lag() == Lag(2499)


@on_servers
async def test_a_pop_waits_for_the_first_message(scene: Scene) -> None:
    queue = await scene.queue(count=1)
    assert len(await queue.pop()) == 1
    waiting = asyncio.create_task(queue.wait().timeout_millis(20_000).pop())
    pushing = await scene.open()
    await pushing.queue(scene.log).partition("other").push({"data": "late"})
    assert [message.data for message in await waiting] == ["late"]


@in_memory
async def test_a_pop_takes_from_so_many_lanes(scene: Scene) -> None:
    _, queue = await filled(scene, lanes=4, each=2)
    assert told(await queue.batch(100).partitions(1).pop()) == [("0", 0), ("0", 1)]
    found = await queue.partitions(2).pop()
    assert {lane for lane, _ in told(found)} == {"1", "2"}


@in_memory
async def test_open_lanes_are_bounded_while_one_is_stuck(scene: Scene) -> None:
    client, queue = await filled(scene, lanes=8, each=1)
    queue.config({"max_open_lanes": 3})
    assert told(await queue.batch(1).pop()) == [("0", 0)]
    others = await queue.batch(100).pop()
    assert told(others) == [("1", 0), ("2", 0)]
    await client.ack(others)
    assert await queue.pop() == []
    scene.pass_time(31)
    stuck = await queue.batch(1).pop()
    assert told(stuck) == [("0", 0)]  # the one that the others wait for always comes
    await client.ack(stuck)
    assert len(await queue.batch(100).pop()) > 1


@in_memory
async def test_acks_of_another_group_or_of_no_message_are_refused(scene: Scene) -> None:
    client, queue = await filled(scene)
    (message,) = await queue.pop()
    with pytest.raises(ConfigurationError, match="read by group 'g'"):
        await client.ack(message, True, {"group": "other"})
    with pytest.raises(ConfigurationError, match="did you mean 'group'"):
        await client.ack(message, True, {"grup": "g"})
    with pytest.raises(ConfigurationError, match="that pop"):
        await client.ack({"data": 1})  # type: ignore[arg-type]
    with pytest.raises(LeaseLost):  # another client gave it out
        await (await scene.open()).ack(message)
    await client.ack(message)


@on_servers
async def test_what_is_given_back_may_span_lanes_and_says_what_was_late(scene: Scene) -> None:
    client, queue = await filled(scene, lanes=3, each=1)
    messages = await queue.batch(10).pop()
    await client.ack(messages[:1])
    with pytest.raises(LeaseLost, match="acknowledged before"):
        await client.ack(messages, False)
    again = await queue.batch(10).pop()
    assert told(again) == [("1", 0), ("2", 0)]
    await client.ack(again)
    assert await queue.lag() == Lag(0)


@on_servers
async def test_one_ack_may_span_lanes_and_says_what_was_late(scene: Scene) -> None:
    client, queue = await filled(scene, lanes=3, each=1)
    messages = await queue.batch(10).pop()
    await queue.partition("lane-1").seek({"to": "first"})  # ends every lease
    with pytest.raises(LeaseLost, match="was sought"):
        await client.ack(messages)
    again = await scene.reads(client).batch(10).pop()
    assert told(again) == [("0", 0), ("1", 0), ("2", 0)]
    await client.ack(again)
    assert await scene.reads(client).lag() == Lag(0)


@on_servers
async def test_a_lane_that_is_ahead_takes_no_others_along(scene: Scene) -> None:
    client = await scene.open()
    for lane, data in (("b", [0, 1]), ("a", [2, 3]), ("b", [4])):
        await client.queue(scene.log).partition(lane).push([{"data": n} for n in data])
    ahead = await scene.reads(client).partition("a").batch(9).pop()
    await client.ack(ahead)
    later = scene.reads(await scene.open())  # a process of its own: it begins where the lane is
    assert await later.partition("a").batch(9).pop() == []
    assert await scene.reads(client).lag() == Lag(3)
    behind = await scene.reads(await scene.open()).batch(9).pop()
    assert [message.data for message in behind] == [0, 1, 4]
    assert await scene.reads(await scene.open()).partition("a").pop() == []
