"""Hops keep what a message came with, take off what would hurt, and never lose the original."""

from __future__ import annotations

from typing import Any

from acemq_amqp import (
    Connection,
    Delivery,
    Message,
    Metrics,
    Topology,
    accept,
    dead_letter_queue,
    fixed_retry,
    reject,
    retry,
    retry_queue,
)
from acemq_amqp.fieldtable import HeaderTable
from tests.contract.api import Api, arrived, delivered_in_vain, holds
from tests.contract.seen import Seen, answering
from tests.contract.stands import OTHER_LOGIN
from tests.contract.waiting import until


async def test_an_expiration_is_taken_off_and_noted(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    await mq.consume(queue, Seen(answering(reject())))
    await mq.publisher("", queue).send(1, expiration=60)
    aside = await arrived(mq, dead_letter_queue(queue))
    assert aside.properties.expiration is None
    assert aside.headers["x-acemq-expiration"] == "60000"


async def test_a_user_id_of_our_own_travels(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    await mq.consume(queue, Seen(answering(reject())))
    await api.publish_raw(queue, user_id="guest")
    aside = await arrived(mq, dead_letter_queue(queue))
    assert aside.properties.user_id == "guest"
    assert "x-acemq-user-id" not in aside.headers


async def test_a_user_id_of_another_is_taken_off_and_noted(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(2, 0))
    queue = await api.queue(mq)
    seen = Seen(answering(retry()))
    await mq.consume(queue, seen)
    await api.publish_raw(queue, user_id=OTHER_LOGIN, login=OTHER_LOGIN)
    aside = await arrived(mq, dead_letter_queue(queue))
    assert seen.attempts == [1, 2]
    assert aside.properties.user_id is None
    assert aside.headers["x-acemq-user-id"] == OTHER_LOGIN


async def test_carbon_copies_are_not_made_again(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(3, 0))
    queue, copied = await api.queue(mq), await api.queue(mq, "copied")
    seen = Seen(answering(retry()))
    await mq.consume(queue, seen)
    await api.publish_raw(queue, headers=HeaderTable.of({"CC": [copied], "tenant": "north"}))
    aside = await arrived(mq, dead_letter_queue(queue))
    assert seen.attempts == [1, 2, 3]
    assert "CC" not in aside.headers
    assert aside.headers["tenant"] == "north"
    await holds(mq, copied, 1)


async def test_counts_of_the_broker_do_not_travel(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(2, 0))
    queue = await api.queue(mq)
    await mq.publisher("", queue).send("order")
    for _ in range(2):
        await delivered_in_vain(api, queue)
    seen = Seen(answering(retry()))
    await mq.consume(queue, seen)
    aside = await arrived(mq, dead_letter_queue(queue))
    first, second = seen.messages
    assert first.all_headers["x-delivery-count"] == 2
    assert second.all_headers.get("x-delivery-count", 0) == 0
    assert not {"x-delivery-count", "x-acquired-count"} & set(aside.headers)


async def test_a_message_that_expired_replayed_by_hand_comes_back_from_a_rung(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(2, 0.2).wait_in_broker_from(0.2))
    queue = await api.queue(mq, dead_letter=True)
    await mq.publisher("", queue).send("order", expiration=0.001)
    await holds(mq, dead_letter_queue(queue), 1)
    dead = await _replayed(api, mq, queue)
    assert [death["reason"] for death in dead.headers["x-death"]] == ["expired"]
    await _retried_through_a_rung(mq, queue)


async def test_a_message_past_its_delivery_limit_replayed_comes_back_from_a_rung(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(2, 0.2).wait_in_broker_from(0.2))
    queue = await api.queue(mq, dead_letter=True, args={"x-delivery-limit": 1})
    await mq.publisher("", queue).send("order")
    for _ in range(2):
        await delivered_in_vain(api, queue)
    await holds(mq, dead_letter_queue(queue), 1)
    dead = await _replayed(api, mq, queue)
    assert [death["reason"] for death in dead.headers["x-death"]] == ["delivery_limit"]
    await _retried_through_a_rung(mq, queue)


async def _replayed(api: Api, mq: Connection, queue: str) -> Delivery:
    """As an operator's tool does: with every property and header it has."""
    dead = await arrived(mq, dead_letter_queue(queue))
    assert dead.headers["x-death"][0]["queue"] == queue
    await api.stand.publish("", queue, dead.properties, dead.body)
    return dead


async def _retried_through_a_rung(mq: Connection, queue: str) -> None:
    def second_time(message: Message) -> Any:
        return retry() if message.envelope.attempt == 1 else accept()

    seen = Seen(second_time)
    consumer = await mq.consume(queue, seen)
    await seen.count(2)
    assert seen.attempts == [1, 2]
    assert seen.payloads == ["order", "order"]
    assert await consumer.close()
    await holds(mq, queue, 0)


async def test_deaths_elsewhere_travel_into_a_rung(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(2, 60).wait_in_broker_from(60))
    queue, before = await api.queue(mq), await api.queue(mq, "before", args=_dead_letters_to(api))
    exchange = api.name("dead")
    await mq.declare(Topology().exchange(exchange, "fanout").binding(queue, exchange))
    await mq.consume(queue, Seen(answering(retry())))
    await mq.publisher("", before).send("order", expiration=0.001)
    waiting = await arrived(mq, retry_queue(queue, 60))
    assert [death["queue"] for death in waiting.headers["x-death"]] == [before]


def _dead_letters_to(api: Api) -> dict[str, Any]:
    return {"x-dead-letter-exchange": api.name("dead")}


async def test_where_the_dead_letter_queue_is_missing_the_original_stays(api: Api) -> None:
    metrics = Metrics()
    mq = await api.connect(observer=metrics)
    queue = await api.queue(mq)
    dead = dead_letter_queue(queue)
    consumer = await mq.consume(queue, Seen(answering(reject("no"))), declare=False)
    await mq.publisher("", queue).send("order")
    await _failed_to_move(metrics, queue, dead)
    assert consumer.unsettled == 1
    await mq.declare(Topology().queue(dead, quorum=False))
    assert (await arrived(mq, dead)).body == b'"order"'
    await until(lambda: consumer.unsettled == 0, "the original settled")
    assert await consumer.close()
    assert await mq.message_count(queue) == 0


async def test_what_cannot_be_moved_is_given_back_at_the_close(api: Api) -> None:
    metrics = Metrics()
    mq, other = await api.connect(observer=metrics), await api.connect()
    queue = await api.queue(mq)
    await mq.consume(queue, Seen(answering(reject("no"))), declare=False)
    await mq.publisher("", queue).send("order")
    await _failed_to_move(metrics, queue, dead_letter_queue(queue))
    await mq.close(1.0)
    await holds(other, queue, 1)


async def test_a_dead_letter_queue_deleted_meanwhile_is_declared_again(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    dead = dead_letter_queue(queue)
    await mq.consume(queue, Seen(answering(reject("no"))))
    await mq.delete_queue(dead)
    await mq.publisher("", queue).send("order")
    assert (await arrived(mq, dead)).body == b'"order"'
    await holds(mq, queue, 0)


async def test_a_rung_deleted_meanwhile_is_declared_again(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(2, 0.2).wait_in_broker_from(0.2))
    queue = await api.queue(mq)
    seen = Seen(answering(retry()))
    await mq.consume(queue, seen)
    await mq.publisher("", queue).send("one")
    await seen.count(2)
    await mq.delete_queue(f"{queue}.retry.200ms")
    await mq.publisher("", queue).send("two")
    await seen.count(4)
    assert seen.attempts == [1, 2, 1, 2]


async def test_where_the_dead_letter_queue_is_full_the_original_stays(api: Api) -> None:
    metrics = Metrics()
    mq = await api.connect(observer=metrics)
    queue = await api.queue(mq)
    dead = dead_letter_queue(queue)
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    await mq.declare(Topology().queue(dead, quorum=False, args=full))
    consumer = await mq.consume(queue, Seen(answering(reject("no"))), declare=False)
    await mq.publisher("", queue).send_many(["one", "two"])
    await _failed_to_move(metrics, queue, dead)
    await until(lambda: consumer.unsettled == 1, "the other to have moved")
    bodies = [(await arrived(mq, dead)).body for _ in range(2)]
    assert sorted(bodies) == [b'"one"', b'"two"']
    await until(lambda: consumer.unsettled == 0, "the original settled")


async def test_accepts_go_on_while_a_hop_cannot_be_made(api: Api) -> None:
    metrics = Metrics()
    mq = await api.connect(observer=metrics)
    queue = await api.queue(mq)
    seen = Seen(lambda message: reject() if message.payload == "bad" else None)
    consumer = await mq.consume(queue, seen, declare=False)
    await mq.publisher("", queue).send("bad")
    await _failed_to_move(metrics, queue, dead_letter_queue(queue))
    await mq.publisher("", queue).send_many(range(50))
    await seen.count(51)
    await holds(mq, queue, 0)
    assert consumer.unsettled == 1
    await mq.close(0.2)


async def test_a_consumer_whose_whole_prefetch_cannot_be_moved_is_stalled(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    consumer = await mq.consume(queue, Seen(answering(reject())), prefetch=2, declare=False)
    await mq.publisher("", queue).send_many(range(2))
    await until(lambda: consumer.stalled, "the consumer to be stalled")
    assert queue in (await mq.health()).stalled
    await mq.declare(Topology().queue(dead_letter_queue(queue), quorum=False))
    await until(lambda: not consumer.stalled, "the consumer to go on")


async def _failed_to_move(metrics: Metrics, queue: str, target: str) -> None:
    def counted() -> int:
        return metrics.total("acemq.messages.set.aside.failed", queue=queue, target=target)

    await until(counted, "a hop that was not taken")
