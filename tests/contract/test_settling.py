"""What each answer of a handler does to its message: where it goes, and what is written on it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from acemq_amqp import (
    Connection,
    DecodeError,
    Delivery,
    Envelope,
    FatalError,
    Message,
    Metrics,
    RetryPolicy,
    StoreError,
    Topology,
    accept,
    dead_letter_queue,
    fixed_retry,
    park,
    parked_queue,
    reject,
    retry,
)
from acemq_amqp.codecs.bytes import BytesCodec
from acemq_amqp.codecs.json import JsonCodec
from tests.contract.api import Api, arrived, delivered_in_vain, holds
from tests.contract.seen import Seen, answering, by_payload, raising
from tests.contract.waiting import until


class Broken(Exception):
    """A handler's own."""


async def sent_to(mq: Connection, queue: str, payload: Any = "order", **options: Any) -> str:
    return (await mq.publisher("", queue).send(payload, **options)).message_id


@pytest.mark.parametrize("answer", [None, accept(), accept("result")], ids=str)
async def test_an_accepted_message_is_gone(api: Api, answer: Any) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    seen = Seen(answering(answer))
    consumer = await mq.consume(queue, seen)
    await sent_to(mq, queue)
    await seen.first()
    assert await consumer.close()
    await holds(mq, queue, 0)
    assert len(seen.messages) == 1
    assert await mq.message_count(dead_letter_queue(queue)) == 0


_SET_ASIDE = {
    "reject": (answering(reject()), ".dlq", "the handler rejected it: no reason given"),
    "reject a text": (answering(reject("too old")), ".dlq", "the handler rejected it: too old"),
    "reject an error": (
        answering(reject(Broken("no stock"))),
        ".dlq",
        "the handler rejected it: Broken: no stock",
    ),
    "park": (answering(park()), ".parked", "the handler parked it: no reason given"),
    "park an error": (answering(park(Broken())), ".parked", "the handler parked it: Broken"),
    "fatal": (
        raising(FatalError("gone")),
        ".dlq",
        "the handler reported an unprocessable message: FatalError: gone",
    ),
    "a decode error of the handler": (
        raising(DecodeError("no date")),
        ".parked",
        "could not be decoded: DecodeError: no date",
    ),
    "raise": (raising(Broken("no stock")), ".dlq", "exhausted 1 attempt: Broken: no stock"),
    "retry": (answering(retry()), ".dlq", "exhausted 1 attempt: no reason given"),
    "retry a text": (answering(retry("busy")), ".dlq", "exhausted 1 attempt: busy"),
    "a store error": (raising(StoreError("down")), ".dlq", "exhausted 1 attempt: StoreError: down"),
}


@pytest.mark.parametrize("how", list(_SET_ASIDE))
async def test_a_message_set_aside_says_why(api: Api, how: str) -> None:
    answer, suffix, error = _SET_ASIDE[how]
    mq = await api.connect()
    queue = await api.queue(mq)
    await mq.consume(queue, Seen(answer))
    id_ = await sent_to(mq, queue)
    aside = await arrived(mq, queue + suffix)
    assert aside.headers["x-acemq-error"] == error
    assert (aside.headers["x-acemq-id"], aside.headers["x-acemq-attempt"]) == (id_, 1)
    await holds(mq, queue, 0)


async def test_many_hops_are_made_at_once_and_each_once(api: Api) -> None:
    mq = await api.connect(prefetch=100)
    queue = await api.queue(mq)
    seen = Seen(answering(reject()))
    consumer = await mq.consume(queue, seen, concurrency=4)
    await mq.publisher("", queue).send_many(range(300))
    await seen.count(300)
    assert await consumer.close()
    await holds(mq, dead_letter_queue(queue), 300)
    assert await mq.message_count(queue) == 0


async def test_a_long_error_is_cut(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    await mq.consume(queue, Seen(raising(Broken("é" * 5000))))
    await sent_to(mq, queue)
    error = (await arrived(mq, dead_letter_queue(queue))).headers["x-acemq-error"]
    assert error == "exhausted 1 attempt: " + ("Broken: " + "é" * 5000)[:1000]


async def test_retries_count_attempts_until_they_are_exhausted(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(3, 0))
    queue = await api.queue(mq)
    seen = Seen(raising(Broken("again")))
    await mq.consume(queue, seen)
    id_ = await sent_to(mq, queue)
    aside = await arrived(mq, dead_letter_queue(queue))
    assert seen.attempts == [1, 2, 3]
    assert {message.envelope.id for message in seen.messages} == {id_}
    assert aside.headers["x-acemq-error"] == "exhausted 3 attempts: Broken: again"
    assert aside.headers["x-acemq-attempt"] == 3


async def test_a_retry_that_then_works_is_accepted(api: Api) -> None:
    def second_time(message: Message) -> Any:
        return accept() if message.envelope.attempt == 2 else retry("not yet")

    mq = await api.connect(retry=fixed_retry(3, 0.01))
    queue = await api.queue(mq)
    seen = Seen(second_time)
    consumer = await mq.consume(queue, seen)
    await sent_to(mq, queue)
    await seen.count(2)
    await consumer.close()
    assert await mq.message_count(queue) == 0
    assert await mq.message_count(dead_letter_queue(queue)) == 0


async def test_a_message_too_old_is_given_up(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(9, 0).give_up_after(timedelta(hours=1)))
    queue = await api.queue(mq)
    seen = Seen(raising(Broken("again")))
    await mq.consume(queue, seen)
    long_ago = datetime.now(UTC) - timedelta(hours=2)
    await sent_to(mq, queue, envelope=Envelope(first_seen=long_ago))
    aside = await arrived(mq, dead_letter_queue(queue))
    error = "exceeded the maximum message age of 1h: Broken: again"
    assert aside.headers["x-acemq-error"] == error
    assert len(seen.messages) == 1


_MOVES: dict[str, Callable[[str], str]] = {
    "reject": dead_letter_queue,
    "park": parked_queue,
    "retry": lambda queue: queue,
}


@pytest.mark.parametrize("move", list(_MOVES))
async def test_a_hop_keeps_body_properties_and_headers(api: Api, move: str) -> None:
    """The source queue is classic, so that no count of the broker's is among the headers."""
    mq = await api.connect(retry=fixed_retry(2, 0), codec=BytesCodec())
    queue = await api.queue(mq, quorum=False)
    headers = {
        "text": "é",
        "number": 2**40,
        "list": [1, "a"],
        "when": datetime(2026, 1, 1, tzinfo=UTC),
    }
    await mq.publisher("", queue).send(
        b"\x00\xff body", headers=headers, reply_to="answers", priority=3
    )
    before = await mq.pull(queue)
    assert before is not None
    await before.requeue()
    moved = await _moved(mq, queue, move)
    assert moved.body == before.body
    same = ("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id")
    for name in (*same, "reply_to", "message_id", "timestamp", "type", "user_id", "app_id"):
        assert getattr(moved.properties, name) == getattr(before.properties, name), name
    changed = {"x-acemq-attempt", "x-acemq-error", "x-acemq-exchange", "x-acemq-routing-key"}
    changed.add("x-acemq-deliveries")  # it was put back once, by this case
    assert _without(moved.headers, changed) == _without(before.headers, changed)
    assert list(_without(before.headers, changed)) == list(_without(moved.headers, changed))


async def _moved(mq: Connection, queue: str, move: str) -> Delivery:
    answer = {"reject": reject(), "park": park(), "retry": retry()}[move]
    seen = Seen(lambda message: answer if message.envelope.attempt == 1 else reject("seen"))
    await mq.consume(queue, seen)
    return await arrived(mq, parked_queue(queue) if move == "park" else dead_letter_queue(queue))


def _without(headers: Any, names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in headers.items() if name not in names}


async def test_a_hop_notes_where_the_message_first_arrived(api: Api) -> None:

    mq = await api.connect(retry=fixed_retry(3, 0))
    queue, exchange = await api.queue(mq), api.name("events")
    await mq.declare(Topology().exchange(exchange).binding(queue, exchange, "order.#"))
    seen = Seen(answering(retry()))
    await mq.consume(queue, seen)
    await mq.publisher(exchange, "order.placed").send(1)
    aside = await arrived(mq, dead_letter_queue(queue))
    assert aside.headers["x-acemq-exchange"] == exchange
    assert aside.headers["x-acemq-routing-key"] == "order.placed"
    assert {(m.exchange, m.routing_key) for m in seen.messages} == {(exchange, "order.placed")}
    assert {m.envelope.type for m in seen.messages} == {"order.placed"}


async def test_an_undecodable_message_is_parked_whole_and_the_next_is_handled(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(5, 0))
    queue = await api.queue(mq)
    seen = Seen()
    await mq.consume(queue, seen)
    body = b'\xff{"cut'
    await api.publish_raw(queue, body, content_type="application/json", message_id="bad-1")
    await sent_to(mq, queue, "next")
    aside = await arrived(mq, parked_queue(queue))
    await seen.first()
    assert seen.payloads == ["next"]
    assert aside.body == body
    assert aside.headers["x-acemq-error"].startswith("could not be decoded: DecodeError: ")
    assert (aside.headers["x-acemq-id"], aside.properties.message_id) == ("bad-1", "bad-1")


@pytest.mark.parametrize(
    ("failure", "suffix", "error"),
    [
        (FatalError("key gone"), ".dlq", "the handler reported an unprocessable message: "),
        (ValueError("odd"), ".parked", "could not be decoded: DecodeError: "),
        (StoreError("store down"), ".dlq", "exhausted 2 attempts: StoreError: store down"),
    ],
    ids=["fatal", "any", "store"],
)
async def test_what_a_codec_raises_decides(
    api: Api, failure: Exception, suffix: str, error: str
) -> None:
    class Failing(JsonCodec):
        def decode(self, body: bytes, content_type: str | None = None) -> Any:
            raise failure

    mq = await api.connect(retry=fixed_retry(2, 0))
    queue = await api.queue(mq)
    seen = Seen()
    await mq.consume(queue, seen, codec=Failing())
    await sent_to(mq, queue)
    aside = await arrived(mq, queue + suffix)
    assert aside.headers["x-acemq-error"].startswith(error)
    assert seen.messages == []


async def test_a_policy_of_the_consumer_s_own_wins(api: Api) -> None:
    mq = await api.connect(retry=fixed_retry(9, 0))
    queue = await api.queue(mq)
    seen = Seen(answering(retry()))
    await mq.consume(queue, seen, retry=RetryPolicy(max_attempts=2, initial_delay=0))
    await sent_to(mq, queue)
    await arrived(mq, dead_letter_queue(queue))
    assert seen.attempts == [1, 2]


async def test_outcomes_are_counted(api: Api) -> None:
    metrics = Metrics()
    mq = await api.connect(observer=metrics, retry=fixed_retry(2, 0))
    queue = await api.queue(mq)
    answers = by_payload(no=answering(reject()), later=answering(retry()), aside=answering(park()))
    await mq.consume(queue, Seen(answers))
    await mq.publisher("", queue).send_many(["yes", "no", "later", "aside", "yes"])

    def counted(outcome: str) -> int:
        return metrics.total("acemq.consume.total", queue=queue, outcome=outcome)

    wanted = {"acked": 2, "rejected": 1, "retried": 1, "dead_lettered": 1, "parked": 1}
    await until(lambda: {name: counted(name) for name in wanted} == wanted, "the counts")
    assert metrics.total("acemq.messages.dead.lettered.total", queue=queue) == 3
    assert metrics.total("acemq.messages.retried.total", queue=queue) == 1


async def test_a_put_back_is_counted_apart_from_retries(api: Api) -> None:
    metrics = Metrics()
    mq = await api.connect(observer=metrics, retry=fixed_retry(2, 0))
    queue = await api.queue(mq, quorum=False)
    await mq.publisher("", queue).send("once")
    await delivered_in_vain(api, queue)
    seen = Seen()
    await mq.consume(queue, seen)
    assert (await seen.first()).envelope.attempt == 1

    def counted(where: str) -> int:
        return metrics.total("acemq.messages.retried.total", queue=queue, where=where)

    wanted = {"requeued": 1, "consumer": 0, "broker": 0}
    await until(lambda: {where: counted(where) for where in wanted} == wanted, "the counts")


async def test_an_observer_that_fails_harms_no_message(api: Api) -> None:
    class Failing(Metrics):
        def count(self, name: str, labels: Any, amount: int = 1) -> None:
            raise Broken(name)

    mq = await api.connect(observer=Failing())
    queue = await api.queue(mq)
    seen = Seen(by_payload(no=answering(reject())))
    await mq.consume(queue, seen)
    await mq.publisher("", queue).send_many(["yes", "no", "yes"])
    await seen.count(3)
    await arrived(mq, dead_letter_queue(queue))
