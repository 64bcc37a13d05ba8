"""How many handlers run at once, and how many deliveries a consumer may have."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from acemq_amqp import Message, NotFound
from tests.contract.api import Api, holds
from tests.contract.seen import Answer, Gate, Seen, by_payload
from tests.contract.waiting import until


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_so_many_handlers_run_at_once_and_never_more(api: Api, concurrency: int) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    gate = api.gate()
    seen = Seen(gate.hold)
    consumer = await mq.consume(queue, seen, concurrency=concurrency)
    await mq.publisher("", queue).send_many(range(10))
    await gate.holds(concurrency)
    assert consumer.in_flight == concurrency
    gate.open()
    await seen.count(10)
    assert gate.most == concurrency
    assert await consumer.close()
    assert consumer.in_flight == 0


async def test_concurrent_handlers_each_get_a_message_of_their_own(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    seen = Seen()
    consumer = await mq.consume(queue, seen, concurrency=4, prefetch=8)
    await mq.publisher("", queue).send_many(range(100))
    await seen.count(100)
    assert await consumer.close()
    assert sorted(seen.payloads) == list(range(100))
    await holds(mq, queue, 0)


async def test_prefetch_opens_to_its_value_and_no_further(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    gate = api.gate()
    await mq.consume(queue, Seen(_held_unless_first(gate)), prefetch=4)
    await mq.publisher("", queue).send_many(["first", *range(10)])
    await gate.holds(1)
    await holds(mq, queue, 6)
    for _ in range(5):  # each asks the broker again
        assert await mq.message_count(queue) == 6
    gate.open()
    await holds(mq, queue, 0)


async def test_prefetch_is_each_consumer_s_own(api: Api) -> None:
    mq = await api.connect(prefetch=2)
    queue = await api.queue(mq)
    first, gate = api.gate(), api.gate()
    for _ in range(2):
        await mq.consume(queue, Seen(by_payload(first=first.hold, then=gate.hold)))
    publisher = mq.publisher("", queue)
    await publisher.send_many(["first", "first"])
    await first.holds(2)
    first.open()
    await publisher.send_many(["then"] * 10)
    await gate.holds(2)
    await holds(mq, queue, 6)
    assert await mq.message_count(queue) == 6


def _held_unless_first(gate: Gate) -> Answer:
    """The delivery with which a consumer starts is settled, so that its prefetch is all there."""
    return lambda message: None if message.payload == "first" else gate.hold()


async def test_a_message_is_acknowledged_when_its_handler_is_done_and_not_before(api: Api) -> None:
    mq = await api.connect(prefetch=1)
    queue = await api.queue(mq)
    gate = api.gate()
    seen = Seen(gate.hold)
    await mq.consume(queue, seen)
    await mq.publisher("", queue).send_many(["one", "two"])
    await gate.holds(1)
    assert await mq.message_count(queue) == 1
    gate.open()
    await seen.count(2)
    await holds(mq, queue, 0)


async def test_messages_are_handled_in_the_order_of_the_queue(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    seen = Seen()
    await mq.consume(queue, seen)
    await mq.publisher("", queue).send_many(range(300))
    await seen.count(300)
    assert seen.payloads == list(range(300))


async def test_a_queue_that_is_not_there_is_told_at_once(api: Api) -> None:
    mq = await api.connect()
    missing = api.name("missing")
    with pytest.raises(NotFound, match="declare it first") as told:
        await mq.consume(missing, Seen())
    assert missing in str(told.value)
    assert mq.consumers == ()
    assert not await mq.queue_exists(f"{missing}.dlq")


async def test_a_consumer_shows_what_it_is(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    consumer = await mq.consume(queue, Seen())
    assert (consumer.queue, consumer.running, consumer.closed) == (queue, True, False)
    assert mq.consumers == (consumer,)
    await consumer.close()
    assert (consumer.running, consumer.closed) == (False, True)
    await until(lambda: not mq.consumers, "no consumers")


async def test_a_consumer_may_be_given_a_tag_and_arguments(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    seen, later = Seen(), Seen()
    await mq.consume(queue, later, tag="backup", args={"x-priority": 1})
    await mq.consume(queue, seen, tag="first", args={"x-priority": 10})
    await mq.publisher("", queue).send(1)
    await seen.first()
    assert later.messages == []


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
async def test_a_handler_whose_task_is_cancelled_costs_no_worker_and_no_message(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    seen = Seen()
    cancelled: list[Any] = []

    async def handle(message: Message) -> None:
        if message.payload == 0 and not cancelled:
            cancelled.append(message)
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
        seen(message)

    await mq.consume(queue, handle)
    await mq.publisher("", queue).send_many(range(5))
    await seen.count(5)
    assert sorted(seen.payloads) == list(range(5))
    await holds(mq, queue, 0)
