"""The scenario in the async flavour."""

from __future__ import annotations

import asyncio
import time

from acemq_amqp.ack import Ack
from acemq_amqp.codecs.bytes import BytesCodec
from acemq_amqp.connecting import Connection, connect
from acemq_amqp.demo import scenario
from acemq_amqp.demo.findings import HANDLED, SET_ASIDE, Findings, SetAside, found
from acemq_amqp.demo.scenario import Desk, Stage, left_behind
from acemq_amqp.errors import BrokerError
from acemq_amqp.message import Message
from acemq_amqp.naming import dead_letter_queue, parked_queue


def play_async(url: str) -> Findings:
    """Plays the scenario on an event loop of its own."""
    return asyncio.run(_play(url))


async def _play(url: str) -> Findings:
    stage, desk = Stage(), Desk()
    async with connect(
        url,
        retry=scenario.POLICY,
        prefetch=scenario.PREFETCH,
        observer=desk.metrics,
        fail_fast=True,
    ) as mq:
        try:
            return await _scenes(mq, stage, desk)
        finally:
            await _clear(mq, stage)


async def _scenes(mq: Connection, stage: Stage, desk: Desk) -> Findings:
    async def handle(message: Message) -> Ack:
        return desk.answer(message)

    started = time.monotonic()
    await mq.declare(stage.topology())
    async with await mq.consume(stage.orders, handle, concurrency=scenario.CONCURRENCY):
        await _publish(mq, stage, desk)
        await _until_settled(mq, stage, desk)
    return found(
        "async",
        desk,
        dead=await _pulled(mq, dead_letter_queue(stage.orders)),
        parked=await _pulled(mq, parked_queue(stage.orders)),
        left=await mq.message_count(stage.orders),
        seconds=time.monotonic() - started,
    )


async def _publish(mq: Connection, stage: Stage, desk: Desk) -> None:
    straight = mq.publisher(routing_key=stage.orders)
    by_exchange = mq.publisher(stage.exchange, "order.eu.placed")
    results = await straight.send_many(map(scenario.order, scenario.STRAIGHT))
    results += await by_exchange.send_many(map(scenario.order, scenario.BY_EXCHANGE))
    desk.confirmed = sum(result.routed for result in results)
    lost = await by_exchange.send(scenario.order(0), routing_key="order.eu.cancelled")
    desk.unrouted = int(not lost.routed)
    await mq.publisher(routing_key=stage.orders, codec=BytesCodec()).send(scenario.GARBLED)


async def _until_settled(mq: Connection, stage: Stage, desk: Desk) -> None:
    """Waits until every order has come to its end; the counts tell where it did not."""
    limit = time.monotonic() + scenario.PATIENCE
    dead, parked = dead_letter_queue(stage.orders), parked_queue(stage.orders)
    while time.monotonic() < limit:
        set_aside = await mq.message_count(dead) + await mq.message_count(parked)
        if len(desk.handled) >= HANDLED and set_aside >= SET_ASIDE:
            return
        await asyncio.sleep(scenario.LOOK_AGAIN)


async def _pulled(mq: Connection, queue: str) -> list[SetAside]:
    messages = []
    while (delivery := await mq.pull(queue)) is not None:
        messages.append(SetAside.read(delivery))
        await delivery.ack()
    return messages


async def _clear(mq: Connection, stage: Stage) -> None:
    try:
        for queue in stage.queues:
            await mq.delete_queue(queue)
    except BrokerError as failure:
        left_behind(stage.orders, failure)
