"""What a query is refused for before it runs, and what it says once it cannot go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from acemq_amqp import Topology
from acemq_amqp.errors import AceMQError, ConfigurationError, NotFound
from acemq_amqp.eventlog import EventLog, QueryReset, Stream
from acemq_amqp.eventlog.job import QueryWords
from acemq_amqp.eventlog.selection import Selection
from tests.eventlog.queries.scene import Scene, as_given, in_memory, in_state, with_sqlite

# ------------------------------------------------------------ words said twice


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("foreach", (print, repr)),
        ("write", (lambda tx, results: None, lambda tx, results: 1)),
        ("to", ("one", "other")),
        ("late_to", ("one", "other")),
        ("aggregate", ({"count": len}, {"sum": len})),
    ],
)
def test_a_word_that_holds_one_thing_is_not_said_twice(word: str, said: tuple[Any, Any]) -> None:
    words = QueryWords(Selection("log")).window_tumbling(seconds=60)
    getattr(words, word)(said[0])
    with pytest.raises(ConfigurationError, match=r"^acemq: .*(twice|two|one place)"):
        getattr(words, word)(said[1])


# ------------------------------------------------------------ where results go


Goes = Callable[[EventLog, Stream, str], Stream]
_LATE: dict[str, Any] = {"event_time": float, "idle_lanes": "wait", "late": "side"}


def _late(log: EventLog, query: Stream, source: str) -> Stream:
    query.window_tumbling(seconds=60, **_LATE).aggregate({"count": len}).foreach(print)
    return query.late_to(as_given(log.queue(source)))


@in_memory
@pytest.mark.parametrize("streams", [1, 2])
@pytest.mark.parametrize(
    "goes",
    [
        lambda log, query, source: query.to(as_given(log.queue(source))),
        lambda log, query, source: query.to(as_given(log.queue(source).partition("other"))),
        _late,
    ],
    ids=["to", "to another lane", "late_to"],
)
async def test_a_query_does_not_read_what_it_puts_out(
    scene: Scene, goes: Goes, streams: int
) -> None:
    log, source = await scene.open(), scene.name("log")
    await log.queue(source).config({"streams": streams}).create()
    query = goes(log, scene.stream(log.queue(source)), source)
    with pytest.raises(ConfigurationError, match="for ever"):
        await query.run(query_id="q")


@in_memory
@pytest.mark.parametrize("streams", [1, 2])
async def test_nor_by_the_name_of_a_stream(scene: Scene, streams: int) -> None:
    log, source = await scene.open(), scene.name("log")
    await log.queue(source).config({"streams": streams}).create()
    query = scene.stream(log.queue(source)).to(source if streams == 1 else f"{source}.1")
    with pytest.raises(ConfigurationError, match="for ever"):
        await query.run(query_id="q")


@in_memory
@pytest.mark.parametrize(
    "goes",
    [
        lambda query: query.to("typo"),
        lambda query: query.to_exchange("typo", "key"),
        lambda query: _counted(query).foreach(print).late_to("typo"),
    ],
    ids=["queue", "exchange", "late"],
)
async def test_a_place_that_is_not_there_is_named_before_anything_runs(
    scene: Scene, goes: Callable[[Stream], Stream]
) -> None:
    log, source = await scene.open(), scene.name("log")
    with pytest.raises(ConfigurationError, match="'typo', and there is none"):
        await goes(scene.stream(log.queue(source))).run(query_id="q")
    # mended, it runs under the same id
    async with await scene.stream(log.queue(source)).foreach(print).run(query_id="q"):
        pass


def _counted(query: Stream) -> Stream:
    return query.window_tumbling(seconds=60, **_LATE).aggregate({"count": len})


# ------------------------------------------------------------ after its end


@in_memory
async def test_a_query_outlives_its_client_in_peace(scene: Scene) -> None:
    log = await scene.open()
    async with (
        await scene.stream(log.queue(scene.name("log"))).foreach(print).run(query_id="q")
    ) as running:
        await log.close()
        status = await running.status()
        assert (status.state, status.error, status.lag) == ("stopped", "", None)
        with pytest.raises(ConfigurationError, match="was stopped, and drains nothing"):
            await running.drain()
        await running.stop()


@in_memory
async def test_a_query_says_that_its_log_was_deleted_also_once_it_was_made_again(
    scene: Scene,
) -> None:
    log, source = await scene.open(), scene.name("log")
    running = await scene.stream(log.queue(source)).foreach(print).run(query_id="q")
    await log.queue(source).delete()
    with pytest.raises((NotFound, QueryReset)):
        await running.drain()
    said = (await in_state(running, "failed")).error
    assert source in said and "ready()" not in said
    await log.queue(source).push([{"data": 1}])
    again = await running.status()
    assert (again.state, again.error) == ("failed", said)
    with pytest.raises(AceMQError) as failure:
        await running.drain()
    assert str(failure.value) == said


@with_sqlite
async def test_a_query_says_that_its_output_is_not_taken_any_more_until_it_is(scene: Scene) -> None:
    log, source, target = await scene.open(), scene.name("log"), scene.name("target")
    await scene.mq.declare(Topology().queue(target))
    query = scene.stream(log.queue(source)).to(target)
    async with await query.run(query_id=scene.name("q")) as running:
        await scene.mq.delete_queue(target)
        await log.queue(source).push({"data": 1})
        said = (await in_state(running, "retrying")).error
        assert said.startswith("acemq: output of query") and target in said
        await scene.mq.declare(Topology().queue(target))
        scene.pass_time(10)
        assert (await in_state(running, "running")).error == ""
        await scene.pulled(target, 1)
