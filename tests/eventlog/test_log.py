"""Pushing to a log, and finding places in it: exactly, whatever goes on meanwhile."""

from __future__ import annotations

import asyncio
import functools
import time
from typing import Any

import pytest

from acemq_amqp import Connection, Envelope
from acemq_amqp.core import connection as core
from acemq_amqp.core.reading import StreamEnds
from acemq_amqp.errors import BatchError, ConfigurationError, EncodeError
from acemq_amqp.eventlog.log import Log
from tests.contract.api import Api
from tests.contract.streams import on
from tests.eventlog.stories import bodies, messages, records


async def new_log(api: Api, mq: Connection, **options: Any) -> tuple[Log, str]:
    """A log, and the stream that its default lane is in."""
    name = api.name("log")

    async def story(mq: core.Connection) -> tuple[Log, str]:
        log = Log(mq, name, **options)
        await log.ready()
        return log, log.stream_of("Default")

    return await on(mq, story)


# ---------------------------------------------------------------- pushing


async def test_a_push_is_in_order_in_its_lane(api: Api) -> None:
    mq = await api.connect()
    log, stream = await new_log(api, mq)
    began = time.time()
    results = await on(
        mq, lambda mq: log.push([{"n": n} for n in range(20)], "north", headers={"tenant": "a"})
    )
    found = await on(mq, lambda mq: messages(mq, stream))
    assert bodies(found) == [b'{"n":%d}' % n for n in range(20)]
    assert [record.id for record in found] == [result.message_id for result in results]
    assert [record.offset for record in found] == list(range(1, 21))
    assert {record.lane for record in found} == {"north"}
    assert all(began - 0.001 <= record.time <= time.time() for record in found)
    headers = found[0].arrival.properties.headers.values()
    assert (headers["tenant"], headers["x-stream-filter-value"]) == ("a", "north")


async def test_lanes_keep_to_their_stream(api: Api) -> None:
    mq = await api.connect()
    log, _ = await new_log(api, mq, streams=3)
    lanes = [f"lane-{n}" for n in range(8)]

    async def story(mq: core.Connection) -> None:
        for lane in lanes * 2:
            await log.push([lane], lane)
        for stream in log.streams:
            found = await messages(mq, stream)
            mine = [lane for lane in lanes if log.stream_of(lane) == stream]
            assert [record.lane for record in found] == mine * 2 and mine

    await on(mq, story)


async def test_one_bad_payload_and_nothing_is_sent(api: Api) -> None:
    mq = await api.connect()
    log, stream = await new_log(api, mq)
    bad: list[tuple[list[Any], dict[str, Any], type[Exception]]] = [
        ([1, 2, object(), 4], {}, EncodeError),
        ([1, 2, float("nan")], {}, EncodeError),
        ([1, 2], {"headers": {"x-acemq-id": "mine"}}, ConfigurationError),
        ([1, 2], {"headers": {"when": object()}}, ConfigurationError),
        ([1, 2], {"ids": ["only one"]}, ConfigurationError),
        ([1, 2], {"ids": ["fine", "x" * 256]}, ConfigurationError),
        ([1, 2], {"envelope": "no envelope"}, ConfigurationError),
        ([1, 2], {"lane": ""}, ConfigurationError),
    ]
    for payloads, options, error in bad:
        with pytest.raises(error):
            await on(mq, functools.partial(_pushed, log, payloads, options))
    assert (await on(mq, lambda mq: log.ends(stream))).tail == 0


async def _pushed(
    log: Log, payloads: list[Any], options: dict[str, Any], mq: core.Connection
) -> None:
    await log.push(payloads, **options)


async def test_nothing_to_push_is_no_error(api: Api) -> None:
    mq = await api.connect()
    log, stream = await new_log(api, mq)
    assert await on(mq, lambda mq: log.push([])) == []
    assert (await on(mq, lambda mq: log.ends(stream))).tail == 0


async def test_identity_and_history_may_be_given(api: Api) -> None:
    mq = await api.connect()
    log, stream = await new_log(api, mq)
    cause = Envelope(id="cause", correlation_id="talk", headers={"x-stream-offset": 66})

    async def story(mq: core.Connection) -> None:
        await log.push([1, 2], ids=["a", "b"])
        await log.push([3], envelope=cause)
        await log.push([4, 5], envelope=cause.with_(id="first"))
        await log.push([6], headers={"x-stream-offset": 66, "acemq-log-lane": "forged"})

    await on(mq, story)
    found = await on(mq, lambda mq: messages(mq, stream))
    assert [record.id for record in found[:4]] == ["a", "b", "cause", "first"]
    assert len({record.id for record in found}) == 6
    told = [each.arrival.properties.headers.get("x-acemq-correlation") for each in found[2:5]]
    assert told == ["talk"] * 3
    assert [record.offset for record in found] == [1, 2, 3, 4, 5, 6]
    assert {record.lane for record in found} == {"Default"}


async def test_a_push_to_a_log_that_is_gone_is_told(api: Api) -> None:
    mq = await api.connect()
    log, stream = await new_log(api, mq)
    await mq.delete_queue(stream)
    with pytest.raises(BatchError, match=stream):
        await on(mq, lambda mq: log.push([1, 2]))


async def test_interceptors_see_messages_and_no_marks(api: Api) -> None:
    seen: list[Any] = []

    def note(publication: Any) -> None:
        seen.append(publication.payload)

    mq = await api.connect(on_publish=[note])
    log, stream = await new_log(api, mq)
    await on(mq, lambda mq: log.push(["one"]))
    await on(mq, lambda mq: log.mark(stream))
    assert seen == ["one"]


# ---------------------------------------------------------------- places


async def test_a_mark_divides_before_from_after(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    log, stream = await new_log(api, mq)
    theirs, _ = await new_log(api, other)
    confirmed: list[str] = []
    over = False

    async def publish() -> None:
        while not over:
            results = await on(other, lambda mq: theirs.push([0] * 5))
            confirmed.extend(result.message_id for result in results)

    publishing = asyncio.ensure_future(publish())
    marked: list[tuple[set[str], int, str]] = []
    for n in range(10):
        before = set(confirmed)
        offset = await on(mq, lambda mq: log.mark(stream))
        await on(mq, functools.partial(_pushed, log, [n], {"ids": [f"after-{n}"]}))
        marked.append((before, offset, f"after-{n}"))
    over = True
    await publishing
    at = {record.id: record.offset for record in await on(mq, lambda mq: records(mq, stream))}
    marks = [r for r in await on(mq, lambda mq: records(mq, stream)) if r.mark == "mark"]
    assert [record.offset + 1 for record in marks] == [offset for _, offset, _ in marked]
    for before, offset, after in marked:
        assert all(at[id] < offset for id in before)
        assert at[after] >= offset


async def times(mq: core.Connection, log: Log, stream: str, *moments: float | None) -> None:
    """Messages that say that they were pushed then; None says nothing, as a foreign one."""
    for moment in moments:
        headers = {} if moment is None else {"acemq-log-time": int(moment * 1000)}
        await mq.publisher("", stream).send("x", headers=headers)


async def test_a_moment_is_found(api: Api) -> None:
    mq = await api.connect()
    log, stream = await new_log(api, mq)
    base = float(int(time.time()) - 1000)
    await on(mq, lambda mq: times(mq, log, stream, *(base + 10 * n for n in range(5))))

    async def at(moment: float, **options: Any) -> int:
        return await on(mq, lambda mq: log.at(stream, moment, **options))

    assert await at(0) == await at(-5) == 1
    assert await at(base - 100, slack=0) == 1
    assert await at(base, slack=0) == 1
    assert await at(base + 0.5, slack=0) == 2
    assert await at(base + 0.5) == 1  # a second of slack, for the publishers' clocks
    assert await at(base + 40, slack=0) == 5
    assert await at(base + 45, slack=10) == 5


@pytest.mark.parametrize("ahead", [-1.0, 3600.0, 1e15])
async def test_a_moment_after_the_last_message_is_what_comes_next(api: Api, ahead: float) -> None:
    mq = await api.connect()
    log, stream = await new_log(api, mq)
    base = time.time()
    await on(mq, lambda mq: times(mq, log, stream, base - 50, base - 40))
    place = await on(mq, lambda mq: log.at(stream, base + ahead, slack=0))
    await on(mq, lambda mq: log.push(["next"]))
    found = await on(mq, lambda mq: messages(mq, stream))
    assert [record.offset >= place for record in found] == [False, False, True]


async def test_a_message_that_tells_no_time_is_not_passed_over(api: Api) -> None:
    mq = await api.connect()
    log, stream = await new_log(api, mq)
    base = float(int(time.time()) - 1000)
    await on(mq, lambda mq: times(mq, log, stream, base, None, base + 20))
    assert await on(mq, lambda mq: log.at(stream, base + 15, slack=0)) == 2


async def test_ids_are_found_by_their_offset(api: Api) -> None:
    mq = await api.connect()
    log, stream = await new_log(api, mq)
    await on(mq, lambda mq: log.push(range(5), ids=list("abcde")))

    async def story(mq: core.Connection) -> list[str]:
        return [await log.id_at(stream, offset) for offset in (-1, 1, 3, 5, 6, 10**9)]

    assert await on(mq, story) == ["", "a", "c", "e", "", ""]
    ends = await on(mq, lambda mq: log.ends(stream))
    assert ends == StreamEnds(0, 5, "e")
