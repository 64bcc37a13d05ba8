"""The patterns in the blocking flavour: the same, without ``await``."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from acemq_amqp.blocking import Connection, connect
from acemq_amqp.blocking.patterns import ConsumerGroup, OutboxRelay, idempotent
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


def play_patterns_blocking(url: str) -> PatternFindings:
    """Plays the patterns on the calling thread."""
    with tempfile.TemporaryDirectory(prefix="acemq-demo-") as folder:
        return _play(url, PatternStage(Path(folder)))


def _play(url: str, stage: PatternStage) -> PatternFindings:
    with connect(url, observer=stage.metrics, fail_fast=True) as mq:
        try:
            return _scenes(mq, stage)
        finally:
            stage.close()
            _clear(mq, stage)


def _scenes(mq: Connection, stage: PatternStage) -> PatternFindings:
    started = time.monotonic()
    mq.declare(stage.topology())
    _claim_check(mq, stage)
    _idempotency(mq, stage)
    _outbox(mq, stage)
    working = _group(mq, stage)
    seconds = time.monotonic() - started
    return found_patterns("blocking", stage, at_work=working, seconds=seconds)


def _claim_check(mq: Connection, stage: PatternStage) -> None:
    queue = stage.documents
    with mq.consume(queue, stage.handler(queue), codec=stage.codec):
        documents = map(scenario.document, range(scenario.DOCUMENTS))
        mq.publisher(routing_key=queue, codec=stage.codec).send_many(documents)
        _until(lambda: len(stage.handled(queue)) >= scenario.DOCUMENTS)


def _idempotency(mq: Connection, stage: PatternStage) -> None:
    pay = idempotent(stage.ids, stage.handler(stage.payments))
    with mq.consume(stage.payments, pay):
        publisher = mq.publisher(routing_key=stage.payments)
        for envelope in scenario.payments():
            publisher.send(envelope.id, envelope=envelope)
        _until(lambda: stage.settled_payments >= SETTLED_PAYMENTS)


def _outbox(mq: Connection, stage: PatternStage) -> None:
    queue = stage.orders
    stage.take_orders(mq)
    with (
        mq.consume(queue, stage.handler(queue)),
        OutboxRelay(mq, stage.outbox, interval=LOOK_AGAIN),
    ):
        _until(lambda: len(stage.handled(queue)) >= TOLD)


def _group(mq: Connection, stage: PatternStage) -> int:
    queue = stage.jobs
    with ConsumerGroup.start(
        mq, queue, scenario.FIRST_SIZE, stage.handler(queue), prefetch=scenario.PREFETCH
    ) as group:
        group.scale_to(scenario.SIZE)
        mq.publisher(routing_key=queue).send_many(range(scenario.JOBS))
        _until(lambda: len(stage.handled(queue)) >= scenario.JOBS)
        return at_work([each.handled for each in group.counters])


def _until(done: Callable[[], bool]) -> None:
    """Waits until it is done; the counts tell where it never is."""
    limit = time.monotonic() + PATIENCE
    while not done() and time.monotonic() < limit:
        time.sleep(LOOK_AGAIN)


def _clear(mq: Connection, stage: PatternStage) -> None:
    try:
        for queue in stage.queues:
            mq.delete_queue(queue)
    except BrokerError as failure:
        left_behind(stage.jobs, failure)
