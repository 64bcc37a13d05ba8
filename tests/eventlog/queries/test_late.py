"""Event time: what comes late is dropped, put aside, or corrects what was told."""

from __future__ import annotations

from typing import Any

import pytest

from acemq_amqp import Topology
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog import EventLog, Stream
from tests.eventlog.queries.scene import (
    THEN,
    Event,
    Scene,
    as_given,
    in_memory,
    with_sqlite,
)

#: seconds at which things happened, in the order in which they were told
HAPPENED = [10, 20, 70, 15, 130, 5]


def counting(scene: Scene, log: EventLog, source: str, **late: Any) -> Stream:
    """Counts by the minute in which things happened."""
    query = scene.stream(log.queue(source).subscription_mode("all"))
    query.window_tumbling(seconds=60, event_time=lambda at: THEN + at, idle_lanes="wait", **late)
    return query.aggregate({"count": lambda _: 1, "max": lambda at: at})


async def happened(scene: Scene) -> str:
    source = scene.name("happened")
    await scene.push(source, [Event("acme", at) for at in HAPPENED])
    return source


@in_memory
async def test_late_events_are_dropped_and_counted(scene: Scene) -> None:
    log, source, told = await scene.open(), await happened(scene), []
    query = counting(scene, log, source).foreach(lambda each: told.append(each.data["count"]))
    async with await query.run(query_id=scene.name("q")) as running:
        await running.drain()
        status = await running.status()
    assert told == [2, 1]
    assert status.late.dropped == 2
    assert status.open_windows == 1


@in_memory
async def test_disorder_that_is_expected_is_waited_for(scene: Scene) -> None:
    log, source, told = await scene.open(), await happened(scene), []
    query = counting(scene, log, source, out_of_order=60)
    query.foreach(lambda each: told.append(each.data["count"]))
    async with await query.run(query_id=scene.name("q")) as running:
        await running.drain()
        assert (await running.status()).late.dropped == 1
    assert told == [3]


@with_sqlite
async def test_late_events_go_to_a_log_of_their_own_in_their_lane(scene: Scene) -> None:
    log, source = await scene.open(), await happened(scene)
    totals, side = scene.name("totals"), scene.name("side")
    query = counting(scene, log, source, late="side").to(as_given(log.queue(totals)))
    query.late_to(as_given(log.queue(side)))
    async with await query.run(query_id=scene.name("q"), batch_size=2) as running:
        found = await scene.resulted(side, 2)
        assert (await running.status()).late.side == 2
        await scene.resulted(totals, 2)
    assert [(each.lane, each.data, each.window) for each in found] == [
        ("acme", 15, None),
        ("acme", 5, None),
    ]


@in_memory
async def test_late_events_correct_a_window_with_a_new_revision(scene: Scene) -> None:
    log, source, totals = await scene.open(), await happened(scene), scene.name("totals")
    query = counting(scene, log, source, late="include", allowed_lateness=60)
    query.to(as_given(log.queue(totals)))
    async with await query.run(query_id=scene.name("q"), batch_size=1) as running:
        await running.drain()
        status = await running.status()
    found = await scene.results(totals)
    windows = [each.window for each in found if each.window is not None]
    assert [each.revision for each in windows] == [0, 1, 0]
    assert [(each.span[0], each.data["count"]) for each in found] == [(0, 2), (0, 3), (60, 1)]
    assert len({each.id for each in windows}) == 3
    assert [each.replaces for each in windows] == [(), (windows[0].id,), ()]
    assert (status.late.included, status.late.dropped) == (1, 1)


@in_memory
async def test_each_piece_of_a_corrected_result_names_the_piece_that_it_replaces(
    scene: Scene,
) -> None:
    log, source, totals = await scene.open(), await happened(scene), scene.name("totals")
    query = counting(scene, log, source, late="include", allowed_lateness=60)
    query.flat_map(lambda result: [result["count"], result["max"]]).to(totals)
    await scene.mq.declare(Topology().queue(totals))
    async with await query.run(query_id=scene.name("q")) as running:
        await running.drain()
        told = [headers for _, headers in await scene.pulled(totals, 6)]
    ids = [each["acemq-log-window-id"] for each in told]
    replaced = [each.get("acemq-log-window-replaces") for each in told]
    assert replaced == [None, None, ids[0], ids[1], None, None]


@in_memory
async def test_a_side_log_is_said_where_there_is_to_be_one_and_only_there(scene: Scene) -> None:
    log, source = await scene.open(), await happened(scene)
    without = counting(scene, log, source, late="side").foreach(lambda each: None)
    with pytest.raises(ConfigurationError, match="belong together"):
        await without.run(query_id="q")
    needless = counting(scene, log, source).foreach(lambda each: None)
    needless.late_to(as_given(log.queue(scene.name("side"))))
    with pytest.raises(ConfigurationError, match="belong together"):
        await needless.run(query_id="q")
