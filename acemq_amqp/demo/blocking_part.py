"""The scenario in the blocking flavour: the same without ``await``."""

from __future__ import annotations

import time

from acemq_amqp.ack import Ack
from acemq_amqp.blocking import Connection, connect
from acemq_amqp.codecs.bytes import BytesCodec
from acemq_amqp.demo import scenario
from acemq_amqp.demo.findings import HANDLED, SET_ASIDE, Findings, SetAside, found
from acemq_amqp.demo.scenario import Desk, Stage, left_behind
from acemq_amqp.errors import BrokerError
from acemq_amqp.message import Message
from acemq_amqp.naming import dead_letter_queue, parked_queue


def play_blocking(url: str) -> Findings:
    """Plays the scenario on the calling thread."""
    return _play(url)


def _play(url: str) -> Findings:
    stage, desk = Stage(), Desk()
    with connect(
        url,
        retry=scenario.POLICY,
        prefetch=scenario.PREFETCH,
        observer=desk.metrics,
        fail_fast=True,
    ) as mq:
        try:
            return _scenes(mq, stage, desk)
        finally:
            _clear(mq, stage)


def _scenes(mq: Connection, stage: Stage, desk: Desk) -> Findings:
    def handle(message: Message) -> Ack:
        return desk.answer(message)

    started = time.monotonic()
    mq.declare(stage.topology())
    with mq.consume(stage.orders, handle, concurrency=scenario.CONCURRENCY):
        _publish(mq, stage, desk)
        _until_settled(mq, stage, desk)
    return found(
        "blocking",
        desk,
        dead=_pulled(mq, dead_letter_queue(stage.orders)),
        parked=_pulled(mq, parked_queue(stage.orders)),
        left=mq.message_count(stage.orders),
        seconds=time.monotonic() - started,
    )


def _publish(mq: Connection, stage: Stage, desk: Desk) -> None:
    straight = mq.publisher(routing_key=stage.orders)
    by_exchange = mq.publisher(stage.exchange, "order.eu.placed")
    results = straight.send_many(map(scenario.order, scenario.STRAIGHT))
    results += by_exchange.send_many(map(scenario.order, scenario.BY_EXCHANGE))
    desk.confirmed = sum(result.routed for result in results)
    lost = by_exchange.send(scenario.order(0), routing_key="order.eu.cancelled")
    desk.unrouted = int(not lost.routed)
    mq.publisher(routing_key=stage.orders, codec=BytesCodec()).send(scenario.GARBLED)


def _until_settled(mq: Connection, stage: Stage, desk: Desk) -> None:
    """Waits until every order has come to its end; the counts tell where it did not."""
    limit = time.monotonic() + scenario.PATIENCE
    dead, parked = dead_letter_queue(stage.orders), parked_queue(stage.orders)
    while time.monotonic() < limit:
        set_aside = mq.message_count(dead) + mq.message_count(parked)
        if len(desk.handled) >= HANDLED and set_aside >= SET_ASIDE:
            return
        time.sleep(scenario.LOOK_AGAIN)


def _pulled(mq: Connection, queue: str) -> list[SetAside]:
    messages = []
    while (delivery := mq.pull(queue)) is not None:
        messages.append(SetAside.read(delivery))
        delivery.ack()
    return messages


def _clear(mq: Connection, stage: Stage) -> None:
    try:
        for queue in stage.queues:
            mq.delete_queue(queue)
    except BrokerError as failure:
        left_behind(stage.orders, failure)
