"""A query that is stopped, run again, changed, reset, and whose log goes away under it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog import EventLog, LogQueue, QueryReset, Stream
from acemq_amqp.flavours.tasks import LoopClock
from acemq_amqp.flavours.threads import ThreadClock
from acemq_amqp.patterns.relaying import Relaying
from tests.contract.waiting import until
from tests.eventlog.queries.scene import (
    THEN,
    Event,
    Scene,
    as_given,
    in_memory,
    in_state,
    with_both,
    with_sqlite,
)


class Wall:
    """The wall clock of both flavours, put where a case wants it."""

    def __init__(self) -> None:
        self.time = THEN

    def now(self, _: object = None) -> float:
        return self.time


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    wall = Wall()
    for clock in (LoopClock, ThreadClock):
        monkeypatch.setattr(clock, "now", wall.now)
    return wall


def hourly(scene: Scene, log: EventLog, source: str, target: str) -> Stream:
    """Sums by the hour, as they are published."""
    query = scene.stream(log.queue(source).subscription_mode("all"))
    query.window_tumbling(seconds=3600, idle_flush_ms=20).aggregate({"sum": lambda number: number})
    return query.to(as_given(log.queue(target)))


@in_memory
async def test_windows_of_a_log_that_was_made_again_are_others(scene: Scene) -> None:
    source, totals = scene.name("numbers"), scene.name("totals")
    log = await scene.open()
    events = [Event("a", 1, 0), Event("a", 2, 61)]
    for count in (1, 2):
        await scene.push(source, events)
        query = scene.stream(log.queue(source).subscription_mode("all"))
        query.window_tumbling(seconds=60, event_time=lambda n: THEN + n * 60, idle_lanes="wait")
        query.aggregate({"sum": lambda n: n}).to(as_given(log.queue(totals)))
        async with await query.run(query_id=scene.name("q")) as running:
            await running.drain()
            results = await scene.resulted(totals, count)
        assert {(each.span, each.data["sum"]) for each in results} == {((60, 120), 1)}
        assert len({each.window and each.window.id for each in results}) == count
        await log.queue(source).delete()


# ------------------------------------------------------------ on time


@with_both
async def test_an_hour_long_window_on_a_quiet_lane_closes_on_time_after_a_restart(
    scene: Scene, wall: Wall
) -> None:
    source, totals, query_id = scene.name("numbers"), scene.name("totals"), scene.name("q")
    before = await scene.open()
    wall.time = THEN + 1800
    await scene.push(source, [Event("acme", 7, 1800)])
    async with await hourly(scene, before, source, totals).run(query_id=query_id) as running:
        await running.drain()
        assert (await running.status()).open_windows == 1
    await before.close()
    after = await scene.open()
    wall.time = THEN + 3600  # the hour is over, its grace is not
    async with await hourly(scene, after, source, totals).run(query_id=query_id) as running:
        await running.drain()
        assert (await running.status()).open_windows == 1
        wall.time = THEN + 3601
        (found,) = await scene.resulted(totals, 1)
    assert (found.lane, found.span, found.data) == ("acme", (0, 3600), {"sum": 7})


@in_memory
async def test_idle_lanes_in_event_time_are_closed_by_the_clock_after_a_restart_too(
    scene: Scene, wall: Wall
) -> None:
    source, query_id = scene.name("numbers"), scene.name("q")
    log = await scene.open()
    results: list[Any] = []

    def minutely() -> Stream:
        query = scene.stream(log.queue(source).subscription_mode("all"))
        query.window_tumbling(
            seconds=60, event_time=lambda at: THEN + at, idle_lanes=30, idle_flush_ms=20
        )
        query.aggregate({"count": lambda _: 1})
        return query.foreach(lambda each: results.append((each.lane, each.window.start - THEN)))

    await scene.push(source, [Event("a", 10), Event("b", 100)])
    async with await minutely().run(query_id=query_id) as running:
        await running.drain()
        await until(lambda: results == [("a", 0)], "what is behind the lead by so much")
    async with await minutely().run(query_id=query_id):

        def later() -> bool:
            wall.time += 1  # a quiet lane is 30 s behind the lead, which is at 100 s, and the clock
            return results == [("a", 0), ("b", 60)]

        await until(later, "what the clock has passed")


@in_memory
async def test_live_and_backlog_give_the_same_windows(scene: Scene) -> None:
    await same_windows(scene, 400)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@with_both
async def test_live_and_a_backlog_of_100_000_give_the_same_windows(scene: Scene) -> None:
    await same_windows(scene, 100_000)


async def same_windows(scene: Scene, count: int) -> None:
    """Reads events while they come, and then all at once; time goes on by them alone."""
    source, live, late = scene.name("numbers"), scene.name("live"), scene.name("late")
    log = await scene.open()
    events = [Event(f"lane-{n % 7}", n, n * 0.37 - (n % 3)) for n in range(count)]
    last = [Event("end", 0, count)]
    await log.queue(source).create()
    query = minutes(scene, log, source, live)
    async with await query.run(query_id=scene.name("live-query")) as running:
        for start in range(0, count, count // 10):
            await scene.push(source, events[start : start + count // 10])
            await running.drain(timeout=600)
        await scene.push(source, last)
        await running.drain(timeout=600)
    query = minutes(scene, log, source, late)
    async with await query.run(query_id=scene.name("late-query")) as running:
        await running.drain(timeout=600)
    one, other = [await told(scene, each) for each in (live, late)]
    assert sum(data["sum"] for _, _, data in one) == sum(range(count))
    assert one == other


def minutes(scene: Scene, log: EventLog, source: str, target: str) -> Stream:
    query = scene.stream(log.queue(source).subscription_mode("all"))
    # no look at quiet windows: the clock is years ahead of these events
    query.window_tumbling(seconds=60, grace=5, idle_flush=3600)
    query.aggregate({"sum": lambda number: number, "count": lambda _: 1})
    return query.to(as_given(log.queue(target)))


async def told(scene: Scene, log: str) -> list[tuple[str, tuple[float, float], Any]]:
    found = [each for each in await scene.results(log) if each.lane != "end"]
    return sorted(((each.lane, each.span, each.data) for each in found), key=str)


# ------------------------------------------------------------ stopping


@with_sqlite
async def test_stop_sends_what_was_put_out_and_the_next_goes_on_where_it_was(
    scene: Scene, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Relaying, "wake", lambda relay: None)  # nothing is sent for a second
    source, totals, query_id = scene.name("numbers"), scene.name("totals"), scene.name("q")
    log = await scene.open()
    wall.time = THEN + 100
    await scene.push(source, [Event("acme", 1, 90), Event("acme", 2, 91)])
    running = await hourly(scene, log, source, totals).run(query_id=query_id)
    await running.drain()
    await scene.push(source, [Event("acme", 4, 3700)])
    await running.drain()
    await running.stop()
    assert [each.data["sum"] for each in await scene.results(totals)] == [3]
    assert (await running.status()).state == "stopped"
    with pytest.raises(ConfigurationError, match="was stopped"):
        await scene.push(source, [Event("acme", 8, 3701)])
        await running.drain()
    wall.time = THEN + 7300
    async with await hourly(scene, log, source, totals).run(query_id=query_id):
        found = await scene.resulted(totals, 2)
    assert [each.data["sum"] for each in found] == [3, 12]


@in_memory
async def test_stopping_in_the_middle_of_a_batch_is_no_attempt_of_its_messages(
    scene: Scene,
) -> None:
    source, query_id = scene.name("numbers"), scene.name("q")
    log = await scene.open()
    await scene.push(source, [Event("acme", number) for number in range(5)])
    gates: list[bool] = []
    opened = False

    def gated(number: int) -> bool:
        gates.append(opened)
        return opened

    results: list[Any] = []
    for _ in range(4):
        begun = len(gates)
        queue = log.queue(source).config({"retry_limit": 0}).subscription_mode("all")
        query = scene.stream(queue).gate(gated).foreach(lambda each: results.append(each.data))
        async with await query.run(query_id=query_id):
            await until(lambda begun=begun: len(gates) > begun, "a look at the gate")  # type: ignore[misc]
    opened = True
    async with await query.run(query_id=query_id) as running:
        await running.drain()
        assert (await running.status()).dead_letters == 0
    assert results == [0, 1, 2, 3, 4]


@in_memory
async def test_what_is_pushed_from_the_return_of_run_on_is_counted_and_nothing_before(
    scene: Scene,
) -> None:
    source = scene.name("numbers")
    log = await scene.open()
    await scene.push(source, [Event("acme", "before")])
    results: list[Any] = []
    query = scene.stream(log.queue(source)).foreach(lambda each: results.append(each.data))
    async with await query.run(query_id=scene.name("q")) as running:
        await scene.push(source, [Event("acme", "after")])
        await running.drain()
    assert results == ["after"]


# ------------------------------------------------------------ another shape, resets


@in_memory
async def test_another_shape_is_refused_and_reset_begins_anew(
    scene: Scene, wall: Wall, caplog: pytest.LogCaptureFixture
) -> None:
    source, totals, query_id = scene.name("numbers"), scene.name("totals"), scene.name("q")
    log = await scene.open()
    wall.time = THEN + 100
    await scene.push(source, [Event("acme", 1, 90), Event("acme", 2, 91)])

    def summed(seconds: float) -> Stream:
        query = scene.stream(log.queue(source).subscription_mode("all"))
        query.window_tumbling(seconds=seconds, idle_flush_ms=20)
        return query.aggregate({"sum": lambda number: number}).to(as_given(log.queue(totals)))

    async with await summed(3600).run(query_id=query_id, version=1) as running:
        await running.drain()
    for changed, version in ((60, 1), (3600, 2)):
        with pytest.raises(ConfigurationError, match="known with another shape"):
            await summed(changed).run(query_id=query_id, version=version)
    # the position stays and what was open is lost; then all is read again
    async with await summed(3600).run(query_id=query_id, version=2, reset="state") as running:
        assert (await running.status()).open_windows == 0
        await scene.push(source, [Event("acme", 4, 92)])
        await running.drain()
    assert "windows that were open are lost" in caplog.text
    wall.time = THEN + 3700
    async with await summed(60).run(query_id=query_id, reset="all"):
        (found,) = await scene.resulted(totals, 1)
    assert (found.span, found.data) == ((60, 120), {"sum": 7})


@with_sqlite
async def test_a_reset_elsewhere_ends_the_runner_that_was(scene: Scene) -> None:
    source, query_id = scene.name("numbers"), scene.name("q")
    one, other = await scene.open(), await scene.open()
    await one.queue(source).create()
    first_told: list[Any] = []
    second_told: list[Any] = []
    query = scene.stream(one.queue(source)).foreach(lambda each: first_told.append(each.data))
    first = await query.run(query_id=query_id)
    query = scene.stream(other.queue(source)).foreach(lambda each: second_told.append(each.data))
    async with await query.run(query_id=query_id, reset="all") as second:
        await scene.push(source, [Event("acme", n) for n in range(3)])
        await second.drain()
        with pytest.raises(QueryReset, match="run it again"):
            await first.ended()
    assert second_told == [0, 1, 2]
    assert (await first.status()).state == "failed"
    assert (await first.status()).events == 0


@with_sqlite
async def test_a_log_that_is_deleted_under_its_query_ends_it(scene: Scene) -> None:
    source = scene.name("numbers")
    log = await scene.open()
    await scene.push(source, [Event("acme", 1)])
    query = scene.stream(log.queue(source).subscription_mode("all")).foreach(lambda each: None)
    running = await query.run(query_id=scene.name("q"))
    await running.drain()
    await log.queue(source).delete()
    assert (await in_state(running, "failed")).error.startswith("acemq: ")


# ------------------------------------------------------------ what cannot be


@in_memory
async def test_the_cursor_of_a_query_cannot_be_moved_by_hand(scene: Scene) -> None:
    source, query_id = scene.name("numbers"), scene.name("q")
    log = await scene.open()
    await scene.push(source, [Event("acme", 1)])
    query = scene.stream(log.queue(source)).foreach(lambda each: None)
    async with await query.run(query_id=query_id):
        with pytest.raises(ConfigurationError, match="reset='all'"):
            await log.admin.seek_consumer_group(f"acemq.query.{query_id}", source, {"to": "first"})
        with pytest.raises(ConfigurationError, match="window query's own cursor"):
            log.queue(source).group(f"acemq.query.{query_id}")


@in_memory
async def test_run_refuses_what_it_does_not_know_and_warns_of_another_url(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    log = await scene.open()
    query = scene.stream(log.queue(scene.name("numbers"))).foreach(lambda each: None)
    for options, told in (
        ({"query_id": "q", "batchsize": 5}, "did you mean 'batch_size'"),
        ({"query_id": ""}, "wants query_id"),
        ({}, "wants query_id"),
        ({"query_id": "q", "batch_size": 0}, "batch_size of run"),
        ({"query_id": "q", "reset": True}, "reset of run"),
    ):
        with pytest.raises(ConfigurationError, match=told):
            await query.run(**options)
    async with await query.run(query_id="q", url="http://elsewhere", max_partitions=8):
        assert "run\\(url=...\\)" in caplog.text or "run(url=...)" in caplog.text


@in_memory
async def test_a_coroutine_function_is_refused_where_nothing_can_await_it(scene: Scene) -> None:
    log = await scene.open()
    source: LogQueue = log.queue(scene.name("numbers"))

    async def awaits(payload: Any) -> Any:
        return payload

    for word in ("map", "filter", "flat_map", "key_by", "gate", "write"):
        with pytest.raises(ConfigurationError, match="coroutine function"):
            getattr(scene.stream(source), word)(awaits)
    query = scene.stream(source).foreach(awaits)
    if scene.flavour == "blocking":
        with pytest.raises(ConfigurationError, match="coroutine"):
            await query.run(query_id="q")
    else:
        await (await query.run(query_id="q")).stop()


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "acemq_amqp")
