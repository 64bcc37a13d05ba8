"""What queries put out: windows of each kind, with their bounds; and what has no windows."""

from __future__ import annotations

from typing import Any

import pytest

from acemq_amqp import Envelope, Topology
from acemq_amqp.eventlog import sum_of, windowing
from acemq_amqp.eventlog.records import lane_headers, window_headers
from tests.contract.waiting import until
from tests.eventlog.queries.scene import (
    Event,
    Scene,
    as_given,
    behind,
    in_memory,
    with_both,
    with_sqlite,
)

SALES = [
    Event("acme", {"amount": 10, "shop": "a"}, 1),
    Event("globex", {"amount": 7.25, "shop": "a"}, 2),
    Event("acme", {"amount": 32.5, "shop": "b"}, 59),
    Event("acme", {"amount": 1, "shop": "a"}, 60),
    Event("globex", {"amount": 100, "shop": "b"}, 61),
]
AMOUNTS: dict[str, Any] = {
    "count": lambda sale: 1,
    "sum": lambda sale: sale["amount"],
    "max": lambda sale: sale["amount"],
}


@with_both
async def test_windows_come_out_by_lane_with_their_bounds_in_order(scene: Scene) -> None:
    log = await scene.open()
    sales, totals = scene.name("sales"), scene.name("totals")
    await scene.push(sales, SALES)
    query = scene.stream(log.queue(sales).subscription_mode("all"))
    query.window_tumbling(seconds=60).aggregate(AMOUNTS).to(as_given(log.queue(totals)))
    async with await query.run(query_id=scene.name("q")) as running:
        found = await scene.resulted(totals, 4)
        status = await running.status()
    assert [(each.lane, each.span, each.data) for each in found if each.lane == "acme"] == [
        ("acme", (0, 60), {"count": 2, "sum": 42.5, "max": 32.5}),
        ("acme", (60, 120), {"count": 1, "sum": 1, "max": 1}),
    ]
    assert [(each.span, each.data["sum"]) for each in found if each.lane == "globex"] == [
        ((0, 60), 7.25),
        ((60, 120), 100),
    ]
    assert len({each.window.id for each in found if each.window}) == 4
    assert (status.state, status.error, status.events, status.results) == ("running", "", 5, 4)
    assert (status.open_windows, status.dead_letters) == (0, 0)
    assert status.lag is not None and status.lag.messages == 0


@in_memory
async def test_a_key_of_ones_own_groups_inside_a_lane(scene: Scene) -> None:
    log = await scene.open()
    sales, totals = scene.name("sales"), scene.name("totals")
    await scene.push(sales, SALES)
    query = scene.stream(log.queue(sales).subscription_mode("all"))
    query.key_by(lambda sale: sale["shop"]).window_tumbling(seconds=60)
    query.aggregate({"total": sum_of(lambda sale: sale["amount"])})
    query.to(as_given(log.queue(totals)))
    async with await query.run(query_id=scene.name("q")):
        found = await scene.resulted(totals, 5)
    # the lane of the totals is the key; globex and acme have each an "a" of their own
    assert sorted((each.lane, each.span[0], each.data["total"]) for each in found) == [
        ("a", 0, 7.25),
        ("a", 0, 10),
        ("a", 60, 1),
        ("b", 0, 32.5),
        ("b", 60, 100),
    ]


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("sliding", {"size": 60, "every": 30}, [(-30, 1), (0, 2), (30, 2), (60, 1)]),
        ("session", {"gap": 10}, [(1, 1), (59, 2)]),
        ("cron", {"cron": "* * * * *"}, [(0, 2), (60, 1)]),
    ],
)
@in_memory
async def test_windows_of_other_kinds(
    scene: Scene, kind: str, options: dict[str, Any], expected: list[tuple[float, int]]
) -> None:
    log = await scene.open()
    sales, totals = scene.name("sales"), scene.name("totals")
    await scene.push(sales, SALES)
    query = scene.stream(log.queue(sales).subscription_mode("all"))
    query.filter(lambda sale, at: at.lane == "acme")
    getattr(query, f"window_{kind}")(**options).aggregate({"count": lambda sale: 1})
    query.to(as_given(log.queue(totals)))
    async with await query.run(query_id=scene.name("q")):
        found = await scene.resulted(totals, len(expected))
    assert [(each.span[0], each.data["count"]) for each in found] == expected


@in_memory
async def test_reduce_keeps_one_value_and_results_are_mapped_and_filtered(scene: Scene) -> None:
    log = await scene.open()
    sales, totals = scene.name("sales"), scene.name("totals")
    await scene.push(sales, SALES)
    query = scene.stream(log.queue(sales).subscription_mode("all"))
    query.map(lambda sale: sale["amount"]).window_tumbling(seconds=60)
    query.reduce(lambda kept, amount: [*kept, amount], []).filter(lambda all: len(all) > 1)
    query.map(lambda all, of: {"all": all, "lane": of.lane, "end": of.window.end})
    query.to(as_given(log.queue(totals)))
    async with await query.run(query_id=scene.name("q")) as running:
        (found,) = await scene.resulted(totals, 1)
        await running.drain()
    assert found.window is not None
    assert found.data == {"all": [10, 32.5], "lane": "acme", "end": found.window.end}


@with_sqlite
async def test_without_windows_each_message_is_a_result(scene: Scene) -> None:
    log = await scene.open()
    sales, queue = scene.name("sales"), scene.name("large")
    await scene.mq.declare(Topology().queue(queue))
    await scene.push(sales, SALES)
    query = scene.stream(log.queue(sales).subscription_mode("all"))
    query.filter(lambda sale: sale["amount"] >= 10)
    query.flat_map(lambda sale: [sale["amount"], sale["shop"]]).to(queue)
    async with await query.run(query_id=scene.name("q")):
        found = await scene.pulled(queue, 6)
    payloads = sorted(str(payload) for payload, _ in found)
    assert payloads == ["10", "100", "32.5", "a", "b", "b"]
    assert len({headers["x-acemq-id"] for _, headers in found}) == 6


@in_memory
async def test_results_go_to_an_exchange_with_their_bounds_in_headers(scene: Scene) -> None:
    log = await scene.open()
    sales, exchange, queue = scene.name("sales"), scene.name("x"), scene.name("q")
    bound = Topology().exchange(exchange).queue(queue).binding(queue, exchange, "totals.#")
    await scene.mq.declare(bound)
    await scene.push(sales, SALES[:1])
    query = scene.stream(log.queue(sales).subscription_mode("all"))
    query.window_tumbling(seconds=60).aggregate(AMOUNTS).to_exchange(exchange, "totals.minute")
    async with await query.run(query_id=scene.name("q")):
        ((payload, headers),) = await scene.pulled(queue, 1)
    assert payload["sum"] == 10
    assert headers["acemq-log-window-key"] == "acme"
    assert headers["acemq-log-window-end"] - headers["acemq-log-window-start"] == 60


@in_memory
async def test_lanes_of_several_streams_are_one_log(scene: Scene) -> None:
    log = await scene.open()
    sales, totals = scene.name("sales"), scene.name("totals")
    source = log.queue(sales).config({"streams": 3})
    await source.create()
    await scene.push(sales, [Event(f"lane-{n}", {"amount": n}, n) for n in range(20)])
    query = scene.stream(source.subscription_mode("all"))
    query.window_tumbling(seconds=60).aggregate(AMOUNTS).to(as_given(log.queue(totals)))
    async with await query.run(query_id=scene.name("q")) as running:
        found = await scene.resulted(totals, 20)
        await running.drain()
        assert (await running.status()).events == 20
    assert {each.lane: each.data["sum"] for each in found} == {f"lane-{n}": n for n in range(20)}


@in_memory
async def test_messages_that_count_nowhere_tell_the_time_all_the_same(scene: Scene) -> None:
    log = await scene.open()
    sales = scene.name("sales")
    skipped = {"amount": None, "skip": True}
    await scene.push(
        sales,
        [
            Event("acme", {"amount": 1}, 1),
            Event("acme", skipped, 200),  # the first window is over by this
            Event("globex", {"amount": 2}, 2),  # too late for it: counts in the one open by then
        ],
    )
    results: list[Any] = []
    query = scene.stream(log.queue(sales).subscription_mode("all"))
    query.filter(lambda sale: "skip" not in sale).window_tumbling(seconds=60)
    query.aggregate({"sum": lambda sale: sale["amount"]}).foreach(lambda each: results.append(each))
    async with await query.run(query_id=scene.name("q"), batch_size=1) as running:
        await until(lambda: len(results) == 2, "two windows")
        status = await running.status()
    assert [(each.lane, each.data["sum"]) for each in results] == [("acme", 1), ("globex", 2)]
    assert status.late.moved == 1


@in_memory
async def test_more_windows_than_one_commit_closes_are_closed_by_several(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windowing, "_AT_ONCE", 3)
    log = await scene.open()
    sales, totals = scene.name("sales"), scene.name("totals")
    await scene.push(sales, [Event(f"lane-{n}", {"amount": n}, n) for n in range(20)])
    await scene.push(sales, [Event("lane-0", {"amount": 100}, 200)])
    query = scene.stream(log.queue(sales).subscription_mode("all"))
    query.window_tumbling(seconds=60, idle_flush=3600)
    query.aggregate(AMOUNTS).to(as_given(log.queue(totals)))
    async with await query.run(query_id=scene.name("q"), batch_size=20):
        found = await scene.resulted(totals, 20)
    assert {each.lane: each.data["sum"] for each in found} == {f"lane-{n}": n for n in range(20)}


@in_memory
async def test_a_gate_holds_a_message_and_those_behind_it_back(scene: Scene) -> None:
    log = await scene.open()
    sales, opened = scene.name("sales"), False
    await scene.push(sales, [Event("acme", number, number) for number in range(1, 6)])
    results: list[Any] = []
    query = scene.stream(log.queue(sales).subscription_mode("all"))
    query.gate(lambda number: number < 3 or opened)
    query.foreach(lambda each: results.append(each.data))
    async with await query.run(query_id=scene.name("q")) as running:
        await until(lambda: len(results) == 2, "two results")
        await until(lambda: behind(running, 3), "three messages held back")
        opened = True
        await running.drain()
    assert results == [1, 2, 3, 4, 5]


@with_sqlite
async def test_a_query_over_another_ones_output_counts_each_window_once(scene: Scene) -> None:
    log = await scene.open()
    sales, totals = scene.name("sales"), scene.name("totals")
    await scene.push(sales, SALES)
    first = scene.stream(log.queue(sales).subscription_mode("all"))
    first.window_tumbling(seconds=60).aggregate(AMOUNTS).to(as_given(log.queue(totals)))
    async with await first.run(query_id=scene.name("first")):
        await scene.resulted(totals, 4)
    await twice_published(scene, totals)
    counted: list[Any] = []
    second = scene.stream(log.queue(totals).subscription_mode("all"))
    second.foreach(lambda each: counted.append(each.data["sum"]))
    async with await second.run(query_id=scene.name("second")) as running:
        await running.drain()
        await twice_published(scene, totals)
        await running.drain()
    assert sorted(counted) == [1, 7.25, 42.5, 100]


async def twice_published(scene: Scene, log: str) -> None:
    """Publishes everything in a log again, as a relay may that was killed before it could mark."""
    for each in await scene.results(log):
        assert each.window is not None
        headers = {**lane_headers(each.lane, 0), **window_headers(each.window)}
        envelope = Envelope(id=each.window.id, headers=headers)
        await scene.mq.publisher("", log).send(each.data, envelope=envelope)
