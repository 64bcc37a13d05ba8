"""Closing: running handlers finish, what was not started is given back, and nothing is left."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from typing import Any

import pytest

from acemq_amqp import (
    AceMQError,
    HealthStatus,
    Message,
    PublishError,
    PublishRefused,
    PublishResult,
    Topology,
    fixed_retry,
    reject,
    retry,
)
from tests.contract.api import Api, arrived, holds
from tests.contract.seen import Seen, answering
from tests.contract.waiting import until


async def test_a_close_gives_back_what_was_not_started(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    gate = api.gate()
    seen = Seen(gate.hold)
    consumer = await mq.consume(queue, seen, prefetch=5)
    await mq.publisher("", queue).send_many(range(5))
    await gate.holds(1)
    await holds(mq, queue, 0)  # all five were delivered
    closing = asyncio.ensure_future(consumer.close())
    await holds(mq, queue, 4)
    assert not closing.done()
    gate.open()
    assert await closing
    assert len(seen.messages) == 1
    assert await mq.message_count(queue) == 4


async def test_a_close_waits_for_what_a_running_handler_decides(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    gate = api.gate()

    def rejecting(message: Message) -> Any:
        gate.hold()
        return reject("seen to the end")

    consumer = await mq.consume(queue, Seen(rejecting))
    await mq.publisher("", queue).send(1)
    await gate.holds(1)
    closing = asyncio.ensure_future(consumer.close())
    await until(lambda: not consumer.running, "the stop to begin")
    gate.open()
    assert await closing
    assert (await arrived(mq, f"{queue}.dlq")).headers["x-acemq-error"].endswith("to the end")
    assert await mq.message_count(queue) == 0


@pytest.mark.parametrize("whole", [False, True], ids=["consumer", "connection"])
async def test_a_close_past_its_deadline_says_so_and_leaves_the_message(
    api: Api, whole: bool
) -> None:
    mq, other = await api.connect(), await api.connect()
    queue = await api.queue(mq)
    gate = api.gate()
    consumer = await mq.consume(queue, Seen(gate.hold))
    await mq.publisher("", queue).send(1)
    await gate.holds(1)
    assert not await (mq.close(0.1) if whole else consumer.close(0.1))
    assert consumer.closed
    await holds(other, queue, 1)
    gate.open()


async def test_a_wait_held_here_goes_to_the_broker_at_a_close_and_keeps_its_attempt(
    api: Api,
) -> None:
    mq, other = await api.connect(retry=fixed_retry(2, 1)), await api.connect()
    queue = await api.queue(mq)
    seen = Seen(answering(retry()))
    await mq.consume(queue, seen)
    await mq.publisher("", queue).send_many(range(3))
    await seen.count(3)
    assert await mq.close()
    await holds(other, queue, 3)
    delivery = await arrived(other, queue)
    assert delivery.headers["x-acemq-attempt"] == 2


async def test_a_close_gives_back_what_waits_where_nothing_may_be_declared(api: Api) -> None:
    mq, other = await api.connect(retry=fixed_retry(2, 25)), await api.connect()
    queue = await api.queue(mq)
    seen = Seen(answering(retry()))
    await mq.consume(queue, seen, declare=False)
    await mq.publisher("", queue).send_many(range(3))
    await seen.count(3)
    assert await mq.close()
    await holds(other, queue, 3)
    delivery = await arrived(other, queue)
    assert delivery.headers["x-acemq-attempt"] == 1


async def test_a_failed_message_that_cannot_be_moved_does_not_hold_up_a_close(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    queue = await api.queue(mq)
    seen = Seen(answering(reject("no")))
    await mq.consume(queue, seen, declare=False)  # there is no dead-letter queue
    await mq.publisher("", queue).send(1)
    await seen.count(1)

    async def troubled() -> bool:
        return (await mq.health()).status is HealthStatus.DEGRADED

    await until(troubled, "health to tell")
    assert await mq.close(15)
    await holds(other, queue, 1)


async def test_a_closing_connection_takes_no_more_and_confirms_what_it_took(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    queue = await api.queue(mq)
    publisher, confirmed = mq.publisher("", queue), []

    async def sending() -> PublishRefused:
        while True:
            try:
                confirmed.append((await publisher.send(1)).message_id)
            except PublishRefused as refused:
                return refused

    senders = [asyncio.ensure_future(sending()) for _ in range(5)]
    await until(lambda: len(confirmed) > 20, "some to be confirmed")
    assert await mq.close()
    for sender in senders:
        assert (await sender).stored == "no"
    await holds(other, queue, len(confirmed))


async def test_closing_the_consumer_from_inside_its_handler_returns(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    answers: list[bool] = []

    async def closing(message: Message) -> None:
        answers.append(await consumer.close())

    consumer = await mq.consume(queue, api.handler(closing))
    await mq.publisher("", queue).send(1)
    await until(lambda: consumer.closed, "the consumer to be closed")
    assert answers == [False]
    await holds(mq, queue, 0)  # the handler returned, so its message was accepted


async def test_closing_the_connection_from_inside_a_handler_returns(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    queue = await api.queue(mq)
    answers: list[bool] = []

    async def closing(message: Message) -> None:
        answers.append(await mq.close())

    consumer = await mq.consume(queue, api.handler(closing))
    await other.publisher("", queue).send(1)
    await until(lambda: consumer.closed and mq.closed, "all to be closed")
    assert answers == [False]
    await holds(other, queue, 0)


async def test_closing_twice_is_closing_once(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    consumer = await mq.consume(queue, Seen())
    assert await consumer.close()
    assert await consumer.close()
    assert await mq.close()
    assert await mq.close()
    assert mq.closed


async def test_closing_from_many_sides_at_once_is_closing_once(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    gate = api.gate()
    consumer = await mq.consume(queue, Seen(gate.hold))
    await mq.publisher("", queue).send(1)
    await gate.holds(1)
    closing = asyncio.gather(mq.close(), consumer.close(), mq.close(), consumer.close())
    await until(lambda: not consumer.running, "the stop to begin")
    gate.open()
    assert all(await closing)


async def test_a_context_closes_what_it_opened(api: Api) -> None:
    async with await api.connect() as mq:
        queue = await api.queue(mq)
        async with await mq.consume(queue, Seen()) as consumer:
            assert consumer.running
        assert consumer.closed
    assert mq.closed


async def test_a_close_waits_for_confirms(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    queue = await api.queue(mq)
    publisher = mq.publisher("", queue)
    sends = [asyncio.ensure_future(publisher.send(number)) for number in range(100)]
    await until(lambda: mq.outstanding or any(send.done() for send in sends), "a message sent")
    await mq.close()
    outcomes = await asyncio.gather(*sends, return_exceptions=True)
    confirmed = [each for each in outcomes if isinstance(each, PublishResult)]
    assert all(isinstance(each, (PublishResult, AceMQError)) for each in outcomes)
    assert not any(isinstance(each, PublishError) and "unknown" in repr(each) for each in outcomes)
    await holds(other, queue, len(confirmed))


@pytest.mark.parametrize("call", ["declare", "consume", "queue_exists", "pull", "purge"])
async def test_a_closed_connection_says_so(api: Api, call: str) -> None:

    mq = await api.connect()
    queue = await api.queue(mq)
    await mq.close()
    arguments: dict[str, tuple[Any, ...]] = {
        "declare": (Topology().queue(queue),),
        "consume": (queue, Seen()),
    }
    with pytest.raises(AceMQError, match="closed"):
        await getattr(mq, call)(*arguments.get(call, (queue,)))


async def test_nothing_is_left_after_twenty_connections(api: Api) -> None:
    first = await api.connect()
    queue = await api.queue(first)
    threads, tasks = threading.active_count(), len(asyncio.all_tasks())
    for number in range(20):
        async with await api.connect(retry=fixed_retry(2, 25)) as mq:
            seen = Seen(answering(retry() if number % 2 else None))
            async with await mq.consume(queue, seen):
                await mq.publisher("", queue).send(number)
                await seen.first()
    await until(lambda: threading.active_count() <= threads, "every thread ended")
    await until(lambda: len(asyncio.all_tasks()) <= tasks, "every task ended")
    gc.collect()  # a task or future whose error nobody saw complains when it is collected


async def test_a_run_ends_when_its_connection_is_closed(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    seen = Seen()
    consumer = await mq.consume(queue, seen)
    running = asyncio.ensure_future(mq.run())
    await mq.publisher("", queue).send(1)
    await seen.first()
    assert not running.done()
    await mq.close()
    await running
    assert consumer.closed


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
async def test_a_run_drains_at_sigterm(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    queue = await api.queue(mq)
    gate = api.gate()
    consumer = await mq.consume(queue, Seen(gate.hold))
    await mq.publisher("", queue).send_many(range(3))
    await gate.holds(1)
    await holds(mq, queue, 0)
    running = asyncio.ensure_future(mq.run())
    await asyncio.sleep(0)  # it takes the signals in its first step
    os.kill(os.getpid(), signal.SIGTERM)
    await until(lambda: not consumer.running, "the stop to begin")
    gate.open()
    await running
    assert mq.closed
    await holds(other, queue, 2)


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
async def test_a_cancelled_caller_is_cancelled_and_harms_nobody(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    publisher = mq.publisher("", queue)
    sends = [asyncio.ensure_future(publisher.send(number)) for number in range(20)]
    await asyncio.sleep(0)
    for send in sends[::2]:
        send.cancel()
    outcomes = await asyncio.gather(*sends, return_exceptions=True)
    for number, outcome in enumerate(outcomes):
        assert isinstance(outcome, PublishResult if number % 2 else asyncio.CancelledError)
    await until(lambda: mq.outstanding == 0, "no place taken for ever")
    assert (await publisher.send("after")).routed


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
async def test_a_cancelled_close_still_closes(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    gate = api.gate()
    consumer = await mq.consume(queue, Seen(gate.hold))
    await mq.publisher("", queue).send(1)
    await gate.holds(1)
    closing = asyncio.ensure_future(mq.close())
    await until(lambda: not consumer.running, "the stop to begin")
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    gate.open()
    await until(lambda: consumer.closed, "the close to be carried out")
