"""A message that waits for its next try holds up nobody, wherever it waits."""

from __future__ import annotations

from typing import Any

from acemq_amqp import (
    Metrics,
    accept,
    exponential_retry,
    fixed_retry,
    in_progress,
    parked_queue,
    retry,
    retry_queue,
)
from tests.contract.api import Api, arrived, delivered_in_vain, holds
from tests.contract.seen import Seen, answering, by_payload
from tests.contract.waiting import until

#: A wait that no case sits out: the case is over, and the message given back, long before.
_LONG = 25.0


async def test_a_wait_in_the_broker_comes_back_with_the_next_attempt(api: Api) -> None:
    metrics = Metrics()
    policy = fixed_retry(3, 0.2).wait_in_broker_from(0.2)
    mq = await api.connect(observer=metrics, retry=policy)
    queue = await api.queue(mq)
    seen = Seen(lambda message: retry() if message.envelope.attempt < 3 else accept())
    await mq.consume(queue, seen)
    id_ = (await mq.publisher("", queue).send("order")).message_id
    messages = await seen.count(3)
    assert seen.attempts == [1, 2, 3]
    assert {message.envelope.id for message in messages} == {id_}
    assert {(m.exchange, m.routing_key, m.payload) for m in messages} == {("", queue, "order")}
    assert metrics.total("acemq.messages.retried.total", queue=queue, where="broker") == 2


async def test_what_the_broker_notes_of_a_wait_is_no_header_of_the_application(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(2, 0.2).wait_in_broker_from(0.2))
    queue = await api.queue(mq)
    seen = Seen(lambda message: retry() if message.envelope.attempt == 1 else accept())
    await mq.consume(queue, seen)
    await mq.publisher("", queue).send("order", headers={"tenant": "north"})
    first, second = await seen.count(2)
    assert first.headers == second.headers == {"tenant": "north"}
    assert second.all_headers["x-death"][0]["reason"] == "expired"


async def test_each_rung_has_a_queue_of_its_own(api: Api) -> None:
    policy = exponential_retry(4, 60).wait_in_broker_from(60)
    mq = await api.connect(retry=policy)
    queue = await api.queue(mq)
    await mq.consume(queue, Seen(answering(retry())))
    for rung in ("1m", "2m", "4m"):
        assert await mq.message_count(f"{queue}.retry.{rung}") == 0
    await mq.publisher("", queue).send(1)
    waiting = await arrived(mq, retry_queue(queue, 60))
    assert waiting.headers["x-acemq-attempt"] == 2
    assert "x-acemq-error" not in waiting.headers


async def test_a_held_wait_does_not_delay_the_next_message(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(2, _LONG))
    queue = await api.queue(mq)
    seen = Seen(by_payload(slow=answering(retry())))
    consumer = await mq.consume(queue, seen, concurrency=1)
    await mq.publisher("", queue).send_many(["slow", "one", "two"])
    await seen.count(3)
    assert seen.payloads == ["slow", "one", "two"]
    await until(lambda: consumer.in_flight == 0, "the last handler to return")
    assert consumer.unsettled == 1
    assert await consumer.close()
    await holds(mq, retry_queue(queue, _LONG), 1)


async def test_a_redelivery_that_waits_does_not_delay_the_rest(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(2, _LONG))
    queue = await api.queue(mq)
    await mq.publisher("", queue).send("slow")
    await delivered_in_vain(api, queue)  # so a consumer begins with care
    seen = Seen(by_payload(slow=answering(retry())))
    consumer = await mq.consume(queue, seen)
    await seen.first()
    await mq.publisher("", queue).send_many(["one", "two"])
    await seen.count(3)
    assert seen.payloads == ["slow", "one", "two"]
    assert consumer.unsettled == 1


async def test_the_rest_flows_while_some_wait(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(2, _LONG))
    queue = await api.queue(mq)
    seen = Seen(by_payload(fail=answering(retry())))
    consumer = await mq.consume(queue, seen, prefetch=20)
    payloads = [*["fail"] * 9, *range(200)]
    await mq.publisher("", queue).send_many(payloads)
    await seen.count(209)
    await until(lambda: consumer.unsettled == 9, "nine held waits")
    assert not await mq.queue_exists(retry_queue(queue, _LONG))
    assert await mq.message_count(queue) == 0


async def test_waits_past_half_the_prefetch_spill_into_the_broker(api: Api) -> None:
    metrics = Metrics()
    mq = await api.connect(observer=metrics, retry=fixed_retry(2, _LONG))
    queue = await api.queue(mq)
    seen = Seen(by_payload(fail=answering(retry())))
    consumer = await mq.consume(queue, seen, prefetch=20)
    await mq.publisher("", queue).send_many([*["fail"] * 25, *range(50)])
    await seen.count(75)
    rung = retry_queue(queue, _LONG)
    await until(lambda: metrics.total("acemq.messages.spilled.total", queue=queue) == 15, "spills")
    await until(lambda: consumer.unsettled == 10, "half the prefetch held")
    await holds(mq, rung, 15)
    spilled = await arrived(mq, rung)
    assert spilled.headers["x-acemq-attempt"] == 2


async def test_nothing_spills_where_it_is_not_wanted(api: Api) -> None:
    metrics = Metrics()
    mq = await api.connect(observer=metrics, retry=fixed_retry(2, _LONG))
    queue = await api.queue(mq)
    seen = Seen(by_payload(fail=answering(retry())))
    consumer = await mq.consume(queue, seen, prefetch=20, spill=False)
    await mq.publisher("", queue).send_many([*["fail"] * 15, *range(50)])
    await seen.count(65)
    assert consumer.unsettled == 15
    assert metrics.total("acemq.messages.spilled.total") == 0
    assert not await mq.queue_exists(retry_queue(queue, _LONG))


async def test_nothing_spills_from_an_ordered_queue(api: Api) -> None:
    metrics = Metrics()
    mq = await api.connect(observer=metrics, retry=fixed_retry(2, _LONG))
    queue = await api.queue(mq, single_active=True)
    seen = Seen(by_payload(fail=answering(retry())))
    consumer = await mq.consume(queue, seen, prefetch=20)
    await mq.publisher("", queue).send_many([*["fail"] * 15, *range(50)])
    await seen.count(65)
    assert consumer.unsettled == 15
    assert not await mq.queue_exists(retry_queue(queue, _LONG))


async def test_in_progress_comes_back_unchanged_and_counts_no_attempt(api: Api) -> None:
    def first_time_busy(message: Any) -> Any:
        return in_progress(0.05) if len(seen.messages) == 1 else accept()

    mq = await api.connect()
    queue = await api.queue(mq)
    seen = Seen(first_time_busy)
    consumer = await mq.consume(queue, seen)
    await mq.publisher("", queue).send("order", headers={"tenant": "north"})
    first, second = await seen.count(2)
    assert (first.envelope, first.payload) == (second.envelope, second.payload)
    assert (second.exchange, second.routing_key) == (first.exchange, first.routing_key)
    assert second.envelope.attempt == 1
    assert await consumer.close()
    await holds(mq, queue, 0)


async def test_a_message_that_killed_its_consumers_is_parked_from_a_quorum_queue(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    id_ = (await mq.publisher("", queue).send("poison")).message_id
    for _ in range(3):
        await delivered_in_vain(api, queue)
    seen = Seen()
    await mq.consume(queue, seen, max_deliveries=3)
    aside = await arrived(mq, parked_queue(queue))
    assert aside.headers["x-acemq-id"] == id_
    assert "never answered" in aside.headers["x-acemq-error"]
    await mq.publisher("", queue).send("next")
    await seen.first()
    assert seen.payloads == ["next"]


async def test_a_message_that_killed_its_consumers_is_parked_from_a_classic_queue(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq, quorum=False)
    await mq.publisher("", queue).send("poison")
    await delivered_in_vain(api, queue)
    seen = Seen()
    await mq.consume(queue, seen, max_deliveries=1)
    aside = await arrived(mq, parked_queue(queue))
    assert "never answered" in aside.headers["x-acemq-error"]
    assert seen.messages == []


async def test_a_message_delivered_in_vain_once_is_handled_as_new(api: Api) -> None:
    mq = await api.connect()
    for quorum in (True, False):
        queue = await api.queue(mq, f"quorum-{quorum}", quorum=quorum)
        await mq.publisher("", queue).send("order")
        await delivered_in_vain(api, queue)
        seen = Seen()
        await mq.consume(queue, seen)
        message = await seen.first()
        assert message.envelope.attempt == 1
        assert (message.exchange, message.routing_key) == ("", queue)
