"""What is promised of queues of one kind also holds with what consumers do on their own account."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from acemq_amqp import (
    AccessRefused,
    AceMQError,
    Consumer,
    Delivery,
    Topology,
    fixed_retry,
    parked_queue,
    retry,
    retry_queue,
)
from acemq_amqp.fieldtable import HeaderTable
from tests.contract.api import Api, arrived, holds
from tests.contract.seen import Seen, by_payload
from tests.contract.waiting import until


async def test_a_consumer_that_is_stopping_takes_nothing_after_a_lost_connection(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    queue, beside = await api.queue(mq), await api.queue(mq, "beside")
    gate = api.gate()
    stopping = await mq.consume(queue, Seen(gate.hold), prefetch=5, concurrency=2)
    going_on = await mq.consume(beside, Seen())
    await mq.publisher("", queue).send("running")
    await gate.holds(1)
    closing = asyncio.ensure_future(stopping.close())
    await until(lambda: not stopping.running, "the stop to begin")
    await api.stand.end_connections()
    await until(lambda: not going_on.running, "the connection to be lost")
    await until(lambda: going_on.running, "the other consumer to be back")
    assert await other.consumer_count(queue) == 0
    await other.publisher("", queue).send("untouched")
    gate.open()
    assert await closing
    deliveries = [await arrived(other, queue) for _ in range(2)]
    assert sorted((each.body, each.redelivered) for each in deliveries) == [
        (b'"running"', True),
        (b'"untouched"', False),
    ]


async def test_what_led_to_a_deleted_queue_is_declared_again_with_it(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    outer, inner, queue = api.name("outer"), api.name("inner"), api.name("orders")
    await mq.declare(
        Topology()
        .exchange(outer, "fanout")
        .exchange(inner, "fanout", auto_delete=True)
        .queue(queue)
        .binding(queue, inner)
        .binding(inner, outer, to_exchange=True)
    )
    seen = Seen()
    consumer = await mq.consume(queue, seen)
    await other.delete_queue(queue)  # and the inner exchange goes with its last binding

    async def back() -> bool:
        return consumer.running and await other.queue_exists(queue)

    await until(back, "the consumer to be back")
    assert (await other.publisher(outer).send("again")).routed
    await seen.count(1)


async def test_a_wait_that_spills_comes_back_to_a_queue_that_was_made_anew(api: Api) -> None:
    mq, other = await api.connect(retry=fixed_retry(2, 0.3)), await api.connect()
    queue = await api.queue(mq)
    seen = Seen(lambda message: retry() if message.envelope.attempt == 1 else None)
    consumer = await mq.consume(queue, seen, prefetch=2, concurrency=2)
    await mq.publisher("", queue).send_many(range(4))
    await seen.count(8)
    await other.delete_queue(queue)

    async def back() -> bool:
        return consumer.running and await other.queue_exists(queue)

    await until(back, "the consumer to be back")
    await mq.publisher("", queue).send_many(range(4, 8))
    await seen.count(16)
    assert sorted(seen.payloads[8:]) == [4, 4, 5, 5, 6, 6, 7, 7]


async def test_no_wait_spills_where_nothing_may_be_declared(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(2, 0.3))
    queue = await api.queue(mq)
    seen = Seen(lambda message: retry() if message.envelope.attempt == 1 else None)
    await mq.consume(queue, seen, prefetch=2, declare=False)
    await mq.publisher("", queue).send_many(range(4))
    await seen.count(8)
    await holds(mq, queue, 0)


async def test_a_queue_that_expires_unused_keeps_its_consumer_while_a_suspect_is_handled(
    api: Api,
) -> None:
    mq = await api.connect()
    queue = await api.queue(mq, args={"x-expires": 60_000})
    gate = api.gate()
    seen = Seen(by_payload(suspect=gate.hold))
    await mq.consume(queue, seen, prefetch=10)
    await mq.publisher("", queue).send("first")
    await seen.first()  # its whole prefetch is open from now on
    await api.publish_raw(queue, b'"suspect"', headers=HeaderTable.of({"x-acemq-deliveries": 2}))
    await gate.holds(1)
    assert await mq.consumer_count(queue) == 1


@pytest.mark.parametrize("quorum", [True, False], ids=["quorum", "classic"])
async def test_a_single_active_successor_keeps_the_order(api: Api, quorum: bool) -> None:
    mq, other = await api.connect(), await api.connect()
    topology = Topology().queue(api.name("orders"), quorum=quorum, single_active=True)
    queue = topology.queues[0].name
    await mq.declare(topology)
    await other.declare(topology)
    gate = api.gate()
    before, after = Seen(gate.hold), Seen()
    consumer = await mq.consume(queue, before, single_active=True)
    await mq.publisher("", queue).send_many(range(10))
    await gate.holds(1)
    await holds(mq, queue, 0)
    await other.consume(queue, after, single_active=True)
    closing = asyncio.ensure_future(consumer.close())
    await until(lambda: not consumer.running, "the stop to begin")
    gate.open()
    assert await closing
    await after.count(9)
    assert after.payloads == list(range(1, 10))


async def test_poison_on_an_ordered_queue_is_parked_where_one_is_taken_at_a_time(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq, single_active=True)
    await mq.publisher("", queue).send("poison")
    for lives in range(1, 4):
        dying, gate = await api.connect(), api.gate()
        await dying.consume(queue, Seen(gate.hold), single_active=True, prefetch=1)
        await gate.holds(1)
        assert not await dying.close(0.1), f"life {lives}"
    await mq.publisher("", queue).send("next")
    seen = Seen()
    await mq.consume(queue, seen, single_active=True, max_deliveries=3, prefetch=1)
    await seen.first()
    assert seen.payloads == ["next"]
    await arrived(mq, parked_queue(queue))


async def test_a_queue_that_went_may_be_declared_otherwise(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq, auto_delete=True)
    consumer = await mq.consume(queue, Seen())
    await consumer.close()

    async def gone() -> bool:
        return not await mq.queue_exists(queue)

    await until(gone, "the queue to go with its consumer")
    await mq.declare(Topology().queue(queue, auto_delete=True, args={"x-max-length": 5}))
    seen = Seen()
    again = await mq.consume(queue, seen)
    await api.stand.end_connections()
    await until(lambda: not again.running, "the connection to be lost")
    await until(lambda: again.running, "the consumer to be back")
    await mq.publisher("", queue).send(1)
    await seen.first()


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
async def test_a_cancelled_pull_keeps_no_message(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq, quorum=False)  # a quorum queue would count, and drop it
    await mq.publisher("", queue).send(1)
    for steps in range(30):
        pulling = asyncio.ensure_future(mq.pull(queue))
        for _ in range(steps):
            await asyncio.sleep(0)
        if not pulling.cancel():
            delivery = pulling.result()
            if delivery is not None:
                await delivery.requeue()
            continue
        await asyncio.gather(pulling, return_exceptions=True)

        async def pulled() -> Delivery | None:
            return await mq.pull(queue)

        assert await (await until(pulled, "the message to be back")).requeue()


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
async def test_a_consumer_begun_while_its_connection_closes_is_closed_or_never_was(
    api: Api,
) -> None:
    other = await api.connect()
    queue = await api.queue(other)
    for steps in range(60):
        mq = await api.connect()
        starting = asyncio.ensure_future(mq.consume(queue, Seen()))
        for _ in range(steps):
            await asyncio.sleep(steps * 1e-6)  # further and further into what it does
        assert await mq.close()
        (outcome,) = await asyncio.gather(starting, return_exceptions=True)
        assert isinstance(outcome, (AceMQError, Consumer)), steps
        assert isinstance(outcome, AceMQError) or outcome.closed, steps


@pytest.mark.parametrize(
    ("options", "declared"),
    [
        ({"spill": False}, {}),
        ({}, {"quorum": False, "args": {"x-max-length": 9, "x-overflow": "reject-publish"}}),
    ],
    ids=["not-wanted", "full-queue"],
)
async def test_a_wait_that_may_not_spill_stays_with_its_queue_at_a_close_too(
    api: Api, options: dict[str, Any], declared: dict[str, Any]
) -> None:
    mq, other = await api.connect(retry=fixed_retry(2, 25)), await api.connect()
    queue = await api.queue(mq, **declared)
    seen = Seen(lambda message: retry())
    await mq.consume(queue, seen, prefetch=2, **options)
    await mq.publisher("", queue).send_many(range(2))
    await seen.count(2)
    assert await mq.close()
    await holds(other, queue, 2)
    assert not await other.queue_exists(retry_queue(queue, 25))


@pytest.mark.parametrize(
    ("bound", "sent", "matches"),
    [
        (1, 1, True),
        (1.5, 1.5, True),
        (1, True, False),
        (1, "1", False),
        ("a", b"a", True),
        (Decimal("1.5"), 1.5, False),
        (Decimal("1.5"), Decimal("1.5"), True),
        ([1], [1], True),
        (None, 5, True),
        (False, None, False),
    ],
)
async def test_headers_are_compared_as_the_broker_has_them(
    api: Api, bound: Any, sent: Any, matches: bool
) -> None:
    mq = await api.connect()
    exchange, queue = api.name("events"), api.name("orders")
    topology = Topology().exchange(exchange, "headers").queue(queue)
    await mq.declare(topology.binding(queue, exchange, args={"x-match": "all", "kind": bound}))
    result = await mq.publisher(exchange).send(1, headers={"kind": sent})
    assert result.routed is matches


@pytest.mark.parametrize("quorum", [True, False], ids=["quorum", "classic"])
async def test_one_message_is_pulled_by_hand_from_a_single_active_queue_only_if_classic(
    api: Api, quorum: bool
) -> None:
    mq = await api.connect()
    queue = await api.queue(mq, quorum=quorum, single_active=True)
    await mq.publisher("", queue).send(1)
    if not quorum:
        await arrived(mq, queue)
        return
    with pytest.raises(AccessRefused, match="RESOURCE_LOCKED") as told:
        await mq.pull(queue)
    assert "take from it with a consumer" in str(told.value)


async def test_a_queue_of_another_connection_alone_exists_and_is_told_among_differences(
    api: Api,
) -> None:
    mq, other = await api.connect(), await api.connect()
    locked, missing = await api.queue(other, "locked", exclusive=True), api.name("missing")
    assert await mq.queue_exists(locked)
    found = await mq.verify(Topology().queue(locked, exclusive=True).queue(missing))
    assert len(found) == 2
    assert "RESOURCE_LOCKED" in found[0].problem
    assert found[1].problem == "missing"
