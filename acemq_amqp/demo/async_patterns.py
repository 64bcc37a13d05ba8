"""The patterns in the async flavour."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from acemq_amqp.connecting import Connection, connect
from acemq_amqp.demo import pattern_scenario as scenario
from acemq_amqp.demo.pattern_findings import (
    SETTLED_PAYMENTS,
    TOLD,
    PatternFindings,
    at_work,
    found_patterns,
)
from acemq_amqp.demo.pattern_scenario import PatternStage
from acemq_amqp.demo.scenario import LOOK_AGAIN, PATIENCE, left_behind
from acemq_amqp.errors import BrokerError
from acemq_amqp.patterns import ConsumerGroup, OutboxRelay, idempotent


def play_patterns_async(url: str) -> PatternFindings:
    """Plays the patterns on an event loop of its own."""
    with tempfile.TemporaryDirectory(prefix="acemq-demo-") as folder:
        return asyncio.run(_play(url, PatternStage(Path(folder))))


async def _play(url: str, stage: PatternStage) -> PatternFindings:
    async with connect(url, observer=stage.metrics, fail_fast=True) as mq:
        try:
            return await _scenes(mq, stage)
        finally:
            stage.close()
            await _clear(mq, stage)


async def _scenes(mq: Connection, stage: PatternStage) -> PatternFindings:
    started = time.monotonic()
    await mq.declare(stage.topology())
    await _claim_check(mq, stage)
    await _idempotency(mq, stage)
    await _outbox(mq, stage)
    working = await _group(mq, stage)
    seconds = time.monotonic() - started
    return found_patterns("async", stage, at_work=working, seconds=seconds)


async def _claim_check(mq: Connection, stage: PatternStage) -> None:
    queue = stage.documents
    async with await mq.consume(queue, stage.handler(queue), codec=stage.codec):
        documents = map(scenario.document, range(scenario.DOCUMENTS))
        await mq.publisher(routing_key=queue, codec=stage.codec).send_many(documents)
        await _until(lambda: len(stage.handled(queue)) >= scenario.DOCUMENTS)


async def _idempotency(mq: Connection, stage: PatternStage) -> None:
    pay = idempotent(stage.ids, stage.handler(stage.payments))
    async with await mq.consume(stage.payments, pay):
        publisher = mq.publisher(routing_key=stage.payments)
        for envelope in scenario.payments():
            await publisher.send(envelope.id, envelope=envelope)
        await _until(lambda: stage.settled_payments >= SETTLED_PAYMENTS)


async def _outbox(mq: Connection, stage: PatternStage) -> None:
    queue = stage.orders
    await asyncio.to_thread(stage.take_orders, mq)
    async with (
        await mq.consume(queue, stage.handler(queue)),
        OutboxRelay(mq, stage.outbox, interval=LOOK_AGAIN),
    ):
        await _until(lambda: len(stage.handled(queue)) >= TOLD)


async def _group(mq: Connection, stage: PatternStage) -> int:
    queue = stage.jobs
    async with await ConsumerGroup.start(
        mq, queue, scenario.FIRST_SIZE, stage.handler(queue), prefetch=scenario.PREFETCH
    ) as group:
        await group.scale_to(scenario.SIZE)
        await mq.publisher(routing_key=queue).send_many(range(scenario.JOBS))
        await _until(lambda: len(stage.handled(queue)) >= scenario.JOBS)
        return at_work([each.handled for each in group.counters])


async def _until(done: Callable[[], bool]) -> None:
    """Waits until it is done; the counts tell where it never is."""
    limit = time.monotonic() + PATIENCE
    while not done() and time.monotonic() < limit:
        await asyncio.sleep(LOOK_AGAIN)


async def _clear(mq: Connection, stage: PatternStage) -> None:
    try:
        for queue in stage.queues:
            await mq.delete_queue(queue)
    except BrokerError as failure:
        left_behind(stage.jobs, failure)
