"""Reading streams: exact places, bounded memory, nothing given back, and an end that is told."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from acemq_amqp import Connection, Topology
from acemq_amqp.core import connection as core
from acemq_amqp.core.ports import Link
from acemq_amqp.core.reading import StreamReader, id_of, offset_of
from acemq_amqp.errors import (
    BrokerError,
    ConfigurationError,
    ConnectionLost,
    ConsumerEnded,
    NotFound,
)
from acemq_amqp.fieldtable import HeaderTable
from acemq_amqp.offsets import Ago, At, First, Last, Next, Offset, Start
from tests.contract.api import Api
from tests.contract.seen import Seen
from tests.contract.streams import new_stream, offsets, on, read, taken
from tests.contract.waiting import until


async def test_each_message_comes_at_its_offset(api: Api) -> None:
    mq = await api.connect()
    stream = await new_stream(api, mq)
    results = await mq.publisher("", stream).send_many(range(300))
    got = await on(mq, lambda mq: read(mq, stream, 300))
    assert offsets(got) == list(range(300))
    assert [arrival.body for arrival in got] == [str(n).encode() for n in range(300)]
    assert [id_of(arrival) for arrival in got] == [result.message_id for result in results]


async def test_an_offset_that_a_foreigner_wrote_is_not_believed(api: Api) -> None:
    mq = await api.connect()
    stream = await new_stream(api, mq, 1)
    await api.publish_raw(stream, b"liar", headers=HeaderTable.of({"x-stream-offset": 77}))
    (first, liar) = await on(mq, lambda mq: read(mq, stream, 2))
    assert (offset_of(first), offset_of(liar), liar.body) == (0, 1, b"liar")
    assert (await on(mq, lambda mq: mq.ends(stream))).tail == 1


@pytest.mark.parametrize(
    ("start", "begins"),
    [
        (First, 0),
        (Last, 4),
        (Next, 5),
        (Offset(0), 0),
        (Offset(3), 3),
        (Offset(5), 5),
        (At(datetime(1970, 1, 1, tzinfo=UTC)), 0),
        (At(datetime(2000, 1, 1, 12, 0, 0, 999, tzinfo=UTC)), 0),
        (At(datetime(2200, 1, 1, tzinfo=UTC)), 5),
        (Ago(timedelta(hours=1)), 0),
        (Ago(timedelta(days=20_000)), 0),
    ],
    ids=str,
)
async def test_where_reading_begins(api: Api, start: Start, begins: int) -> None:
    mq = await api.connect()
    stream = await new_stream(api, mq, 5)

    async def story(mq: core.Connection) -> list[int]:
        reader = await mq.read(stream, start)
        await mq.publisher("", stream).send("after")
        got = await taken(mq, reader, 6 - begins)
        await reader.close()
        return offsets(got)

    assert await on(mq, story) == list(range(begins, 6))


async def test_an_offset_past_the_end_waits_for_it(api: Api) -> None:
    mq = await api.connect()
    stream = await new_stream(api, mq, 2)

    async def story(mq: core.Connection) -> list[int]:
        reader = await mq.read(stream, Offset(4))
        await mq.publisher("", stream).send_many(list("abcd"))
        got = await taken(mq, reader, 2)
        await reader.close()
        return offsets(got)

    assert await on(mq, story) == [4, 5]


@pytest.mark.parametrize(
    "start", ["first", "5", 5, 1.5, None, True, datetime(2020, 1, 1, tzinfo=UTC)]
)
async def test_what_is_no_beginning_does_not_reach_the_broker(api: Api, start: Any) -> None:
    mq = await api.connect()
    stream = await new_stream(api, mq)
    with pytest.raises(ConfigurationError, match="give First, Next, Last"):
        await on(mq, lambda mq: mq.read(stream, start))
    assert await mq.queue_exists(stream)


async def test_a_slow_reader_does_not_grow(api: Api) -> None:
    mq = await api.connect()
    stream = await new_stream(api, mq, 40)
    reader = await on(mq, lambda mq: mq.read(stream, First, prefetch=8))
    await until(lambda: len(reader) >= 8, "as many as the prefetch")
    got = await on(mq, lambda mq: taken(mq, reader, 3))
    await until(lambda: len(reader) >= 8, "as many as the prefetch again")
    await mq.queue_exists(stream)  # whatever else the broker had sent would be here
    assert len(reader) == 8
    got += await on(mq, lambda mq: taken(mq, reader, 37))
    assert offsets(got) == list(range(40))
    await on(mq, lambda mq: reader.close())


async def test_an_empty_list_says_that_the_time_is_up(api: Api) -> None:
    mq = await api.connect()
    stream = await new_stream(api, mq, 1)

    async def story(mq: core.Connection) -> list[int]:
        reader = await mq.read(stream, First)
        got = offsets(await taken(mq, reader, 1))
        got += offsets(await reader.take(1, mq.work.clock.monotonic() + 0.01))
        await mq.publisher("", stream).send("later")
        got += offsets(await taken(mq, reader, 1))
        await reader.close()
        return got

    assert await on(mq, story) == [0, 1]


async def lose(mq: Connection, stream: str) -> None:
    """Has the broker end the connection: it does for a basic.get of a stream."""
    with pytest.raises(ConnectionLost):
        await mq.pull(stream)


async def test_a_loss_is_raised_once_what_came_before_was_given(api: Api) -> None:
    mq = await api.connect()
    stream = await new_stream(api, mq, 10)
    reader = await on(mq, lambda mq: mq.read(stream, First))
    assert offsets(await on(mq, lambda mq: taken(mq, reader, 4))) == [0, 1, 2, 3]
    await until(lambda: len(reader) == 6, "the rest")
    await lose(mq, stream)
    await mq.publisher("", stream).send("after")
    assert offsets(await on(mq, lambda mq: taken(mq, reader, 6))) == [4, 5, 6, 7, 8, 9]
    for _ in range(2):
        with pytest.raises(ConnectionLost):
            await on(mq, lambda mq: reader.take(1))
    await on(mq, lambda mq: reader.close())
    again = await on(mq, lambda mq: read(mq, stream, 2, Offset(9)))
    assert offsets(again) == [9, 10]


async def waiting_take(mq: Connection, reader: StreamReader) -> asyncio.Task[Any]:
    """A take that waits without a limit."""
    return asyncio.ensure_future(on(mq, lambda mq: reader.take(1)))


@pytest.mark.parametrize("how", ["lost", "deleted", "closed", "let go"])
async def test_whoever_waits_is_told_of_the_end(api: Api, how: str) -> None:
    mq, other = await api.connect(), await api.connect()
    stream = await new_stream(api, mq)
    reader = await on(mq, lambda mq: mq.read(stream, Next))
    waiting = await waiting_take(mq, reader)
    if how == "lost":
        await lose(mq, stream)
    elif how == "deleted":
        await other.delete_queue(stream)
    elif how == "closed":
        await mq.close()
    else:
        await on(mq, lambda mq: reader.close())
    with pytest.raises(BrokerError) as told:
        await waiting
    wanted = {"lost": ConnectionLost, "closed": ConnectionLost, "let go": ConsumerEnded}
    assert isinstance(told.value, wanted.get(how, BrokerError))
    if how != "closed":
        await on(mq, lambda mq: reader.close())


async def test_what_is_missing_or_no_stream_is_told(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq, quorum=False)
    with pytest.raises(BrokerError, match="x-stream-offset") as told:
        await on(mq, lambda mq: mq.read(queue, First))
    assert told.value.code == 406
    missing = api.name("missing")
    for ask in (lambda mq: mq.read(missing, First), lambda mq: mq.ends(missing)):
        with pytest.raises(NotFound, match=missing):
            await on(mq, ask)


# ---------------------------------------------------------------- nothing is given back


async def test_closing_gives_nothing_back(api: Api) -> None:
    """A stream takes no nack, and ends the connection for one."""
    mq = await api.connect()
    stream = await new_stream(api, mq, 20)
    reader = await on(mq, lambda mq: mq.read(stream, First, prefetch=10))
    await until(lambda: len(reader) == 10, "deliveries that nobody takes")
    await on(mq, lambda mq: reader.close())
    assert (await on(mq, lambda mq: mq.ends(stream))).tail == 19
    assert (await mq.health()).recoveries == 0


async def test_a_consumer_that_stops_gives_nothing_back_to_a_stream(api: Api) -> None:
    mq = await api.connect()
    stream = await new_stream(api, mq, 20)
    gate = api.gate()
    consumer = await mq.consume(
        stream, Seen(gate.hold), prefetch=10, declare=False, args={"x-stream-offset": "first"}
    )
    await gate.holds(1)
    closing = asyncio.ensure_future(consumer.close())
    await until(lambda: not consumer.running, "the stop")
    gate.open()
    assert await closing
    assert (await on(mq, lambda mq: mq.ends(stream))).tail == 19
    assert (await mq.health()).recoveries == 0


# ---------------------------------------------------------------- the two ends


async def test_the_ends_are_exact(api: Api) -> None:
    mq = await api.connect()
    stream = await new_stream(api, mq)
    publisher = mq.publisher("", stream)
    count = 0
    for size in (1, 1, 2, 40, 1, 500, 3):
        results = await publisher.send_many(range(size))
        count += size
        ends = await on(mq, lambda mq: mq.ends(stream))
        assert (ends.oldest, ends.tail) == (0, count - 1)
        assert ends.tail_id == results[-1].message_id


async def test_the_tail_is_never_behind_what_was_confirmed(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    stream = await new_stream(api, mq, 1)
    publisher = other.publisher("", stream)
    confirmed, over = 1, False

    async def publish() -> None:
        nonlocal confirmed
        while not over:
            await publisher.send_many(range(7))
            confirmed += 7

    publishing = asyncio.ensure_future(publish())
    for _ in range(25):
        before = confirmed
        ends = await on(mq, lambda mq: mq.ends(stream))
        assert ends.tail >= before - 1
        assert ends.tail <= confirmed - 1 + 7
    await until(lambda: confirmed > 1 + 7, "some that were published meanwhile")
    over = True
    await publishing


async def test_the_ends_of_an_empty_stream_are_told(api: Api) -> None:
    mq = await api.connect()
    stream = await new_stream(api, mq)
    ends = await on(mq, lambda mq: mq.ends(stream))
    assert (ends.oldest, ends.tail, ends.tail_id) == (0, -1, "")


async def test_the_oldest_is_what_retention_left(api: Api) -> None:
    mq = await api.connect()
    stream = api.name("log")
    # Segments end at their size or, on a broker, with 256k messages; none is that small.
    limits = {"x-max-length-bytes": 20_000, "x-stream-max-segment-size-bytes": 10_000}
    arguments = {"x-queue-type": "stream", **limits}
    await mq.declare(Topology().queue(stream, args=arguments))
    publisher = mq.publisher("", stream)
    body = "x" * 1000
    for _ in range(60):
        await publisher.send(body)

    async def trimmed() -> int:
        await publisher.send(body)
        return (await on(mq, lambda mq: mq.ends(stream))).oldest

    oldest = await until(trimmed, "retention")
    got = await on(mq, lambda mq: read(mq, stream, 1, Offset(0)))
    assert offset_of(got[0]) >= oldest > 0


# ---------------------------------------------------------------- lanes


async def filters(mq: core.Connection) -> bool:
    async def version(link: Link, limit: float) -> tuple[int, ...]:
        return link.broker.version

    return await mq.ask(version) >= (3, 13)


async def test_lanes_are_filtered_where_the_broker_can(api: Api) -> None:
    mq = await api.connect()
    stream = await new_stream(api, mq)
    publisher = mq.publisher("", stream)
    for number in range(40):
        lane = "wanted" if number % 4 == 0 else f"other{number % 4}"
        await publisher.send(number, headers={"x-stream-filter-value": lane})
    await publisher.send(40)

    async def story(mq: core.Connection) -> list[int]:
        reader = await mq.read(stream, First, lanes=["wanted"])
        got: list[int] = []
        while 40 not in got:
            got += [int(arrival.body) for arrival in await taken(mq, reader, 1)]
        await reader.close()
        return got

    got = await on(mq, story)
    assert got == sorted(got)
    assert {*range(0, 40, 4), 40} <= set(got)  # and those that have no lane
    if await on(mq, filters):
        assert len(got) < 30
    else:
        assert len(got) == 41


@pytest.mark.parametrize("lanes", [[], "lane", [""], ["x" * 256], [1]])
async def test_what_can_be_no_lane_is_refused(api: Api, lanes: Any) -> None:
    mq = await api.connect()
    stream = await new_stream(api, mq)
    with pytest.raises(ConfigurationError, match="lane"):
        await on(mq, lambda mq: mq.read(stream, First, lanes=lanes))


async def test_a_reader_that_nobody_closes_ends_with_its_connection(api: Api) -> None:
    mq = await api.connect()
    stream = await new_stream(api, mq, 3)
    reader = await on(mq, lambda mq: mq.read(stream, First))
    await until(lambda: len(reader) == 3, "the messages")
    assert await mq.close()
    with suppress(ConnectionLost):  # what came before is still given
        assert len(await on(mq, lambda mq: reader.take(10))) == 3
        await on(mq, lambda mq: reader.take(10))
        raise AssertionError("a closed connection gave more")
