"""Making a log and deleting it: who is first, what is found, what is left alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from acemq_amqp import Connection, Topology
from acemq_amqp.core import connection as core
from acemq_amqp.errors import ConfigurationError, NotFound
from acemq_amqp.eventlog.log import Log
from acemq_amqp.eventlog.records import LogRecord
from acemq_amqp.retention import StreamRetention
from tests.contract.api import Api
from tests.contract.streams import on
from tests.eventlog.stories import bodies, messages, records


async def made(mq: Connection, name: str, **options: Any) -> tuple[str, ...]:
    """The streams of a log that was made, or found."""

    async def story(mq: core.Connection) -> tuple[str, ...]:
        log = Log(mq, name, **options)
        await log.ready()
        return log.streams

    return await on(mq, story)


async def found_in(mq: Connection, stream: str) -> list[LogRecord]:
    return await on(mq, lambda mq: records(mq, stream))


@pytest.mark.parametrize("count", [None, 1, 3])
async def test_a_log_begins_with_a_genesis_in_each_stream(api: Api, count: int | None) -> None:
    mq = await api.connect()
    name = api.name("log")
    streams = await made(mq, name, streams=count)
    assert streams == ((name,) if count != 3 else (f"{name}.0", f"{name}.1", f"{name}.2"))
    for stream in streams:
        (genesis,) = await found_in(mq, stream)
        assert (genesis.offset, genesis.mark) == (0, "genesis") and genesis.id
    assert not await mq.queue_exists(f"{name}.creating")


async def test_a_log_that_exists_is_taken_as_it_is(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    name = api.name("log")
    retention = StreamRetention(max_age="1h")
    streams = await made(mq, name, streams=2, retention=retention)
    assert await made(other, name) == streams
    assert await made(other, name, streams=2, retention=StreamRetention(max_age="2h")) == streams
    for stream in streams:
        assert len(await found_in(mq, stream)) == 1
    with pytest.raises(ConfigurationError, match=r"has 2 streams, and 3 were asked for"):
        await made(other, name, streams=3)


async def test_creators_that_race_make_one_log(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    name = api.name("log")
    made_by = [made(each, name, streams=3) for each in (mq, other, mq, other)]
    for streams in await asyncio.gather(*made_by):
        assert streams == (f"{name}.0", f"{name}.1", f"{name}.2")
    for stream in streams:
        found = await found_in(mq, stream)
        assert [record.mark for record in found] == ["genesis"]


async def test_creators_of_different_minds_agree_on_the_first(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    name = api.name("log")
    wanted = [2, 4, 1, 3]
    racing = [made(mq if n % 2 else other, name, streams=n) for n in wanted]
    outcomes = await asyncio.gather(*racing, return_exceptions=True)
    winners = [each for each in outcomes if not isinstance(each, BaseException)]
    assert len(winners) == 1
    assert sum(isinstance(each, ConfigurationError) for each in outcomes) == 3
    assert await made(other, name) == winners[0]


async def test_what_an_interrupted_creator_left_is_completed(api: Api) -> None:
    mq = await api.connect()
    name = api.name("log")
    await mq.declare(Topology().stream(f"{name}.2"))
    with pytest.raises(ConfigurationError, match=r"\.2' *, which exists"):
        await made(mq, name, streams=2)
    streams = await made(mq, name, streams=3)
    assert len(streams) == 3
    (genesis,) = await found_in(mq, streams[2])
    assert genesis.mark == "genesis"


async def test_an_empty_stream_gets_its_genesis(api: Api) -> None:
    mq = await api.connect()
    name = api.name("log")
    await mq.declare(Topology().stream(name))
    assert await made(mq, name) == (name,)
    assert [record.mark for record in await found_in(mq, name)] == ["genesis"]


async def test_a_queue_of_another_kind_is_left_alone(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq, quorum=False)
    with pytest.raises(ConfigurationError, match="no stream"):
        await on(mq, lambda mq: Log(mq, queue).ready())
    with pytest.raises(ConfigurationError, match="no stream"):
        await on(mq, lambda mq: Log(mq, queue).delete())
    assert await mq.message_count(queue) == 0


async def test_a_log_that_is_not_there_may_be_told(api: Api) -> None:
    mq = await api.connect()
    name = api.name("log")
    with pytest.raises(NotFound, match=name):
        await on(mq, lambda mq: Log(mq, name).ready(create=False))
    assert not await mq.queue_exists(name)


async def test_nothing_is_asked_of_a_log_that_is_not_ready(api: Api) -> None:
    mq = await api.connect()
    with pytest.raises(ConfigurationError, match="call ready"):
        await on(mq, lambda mq: Log(mq, api.name("log")).push([1]))


async def test_deleting_takes_all_of_it_away(api: Api) -> None:
    mq = await api.connect()
    name = api.name("log")

    async def story(mq: core.Connection) -> tuple[str, str, list[bytes]]:
        log = Log(mq, name, streams=2)
        await log.ready()
        await log.push(["old"])
        stream = log.stream_of("Default")
        before = await log.id_at(stream, 0)
        await log.delete()
        await log.delete()
        for each in (f"{name}.0", f"{name}.1", f"{name}.creating"):
            assert not await mq.queue_exists(each)
        await log.ready()
        return before, await log.id_at(stream, 0), bodies(await messages(mq, stream))

    before, after, left = await on(mq, story)
    assert before != after and left == []


async def test_a_deleted_log_does_not_come_back_with_its_connection(api: Api) -> None:
    """What was declared is declared again after a loss; a log would come back without genesis."""
    mq, other = await api.connect(), await api.connect()
    name = api.name("log")
    await made(mq, name)
    await on(other, lambda mq: Log(mq, name).delete())
    await mq.declare(Topology().stream(api.name("victim")))
    with pytest.raises(Exception, match="540"):
        await mq.pull(api.name("victim"))
    assert not await mq.queue_exists(name)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2", 1001])
async def test_a_number_of_streams_that_cannot_be(api: Api, count: Any) -> None:
    mq = await api.connect()
    with pytest.raises(ConfigurationError, match="streams of an event log"):
        await made(mq, api.name("log"), streams=count)


async def test_names_that_would_not_fit_are_refused_at_once(api: Api) -> None:
    mq = await api.connect()
    for name in ("", "x" * 250, "a\nb"):
        with pytest.raises(ConfigurationError, match="name"):
            await made(mq, name)
