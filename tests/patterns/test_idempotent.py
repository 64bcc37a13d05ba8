"""Idempotent consumer: what the wrapper does with a message, its claim and the handler's answer."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from acemq_amqp import (
    ConfigurationError,
    Envelope,
    Message,
    accept,
    park,
    reject,
    retry,
)
from acemq_amqp.ack import Ack, AckKind
from acemq_amqp.codec import JsonCodec
from acemq_amqp.patterns import Claim, InMemoryIdempotencyStore, idempotent
from acemq_amqp.patterns.waiting import driven
from tests.contract.api import Api, holds
from tests.contract.seen import Seen
from tests.contract.waiting import until


def message(id_: str = "id-1", payload: Any = None) -> Message:
    return Message(payload, Envelope(id=id_))


# ------------------------------------------------------------ answers


@pytest.mark.parametrize("answer", [None, accept()])
def test_what_was_accepted_is_not_run_again(wrapped: Any, answer: Any) -> None:
    seen = Seen(lambda message: answer)
    handle = wrapped(InMemoryIdempotencyStore(), seen)
    kinds = [handle(message(id_)).kind for id_ in ("id-1", "id-1", "id-2")]
    assert kinds == [AckKind.ACCEPT] * 3
    assert [each.envelope.id for each in seen.messages] == ["id-1", "id-2"]


@pytest.mark.parametrize("answer", [retry("x"), reject("x"), park("x")])
def test_anything_but_accept_gives_the_claim_up(wrapped: Any, answer: Ack) -> None:
    store = InMemoryIdempotencyStore()
    handle = wrapped(store, lambda message: answer)
    assert [handle(message()), handle(message())] == [answer, answer]
    assert driven(store.claim("id-1")) is Claim.CLAIMED


def test_an_answer_that_is_none_gives_the_claim_up(wrapped: Any) -> None:
    store = InMemoryIdempotencyStore()
    assert wrapped(store, lambda message: "done")(message()).kind is AckKind.FATAL
    assert driven(store.claim("id-1")) is Claim.CLAIMED


def test_a_raise_passes_through_and_gives_the_claim_up(wrapped: Any) -> None:
    def fail(message: Message) -> None:
        raise LookupError("no such order")

    store = InMemoryIdempotencyStore()
    with pytest.raises(LookupError, match="no such order"):
        wrapped(store, fail)(message())
    assert driven(store.claim("id-1")) is Claim.CLAIMED


async def test_a_cancelled_handler_gives_the_claim_up() -> None:
    store = InMemoryIdempotencyStore()
    begun = asyncio.Event()

    async def wait(message: Message) -> None:
        begun.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(idempotent(store, wait)(message()))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await store.claim("id-1") is Claim.CLAIMED


def test_what_another_is_handling_is_put_back_unchanged(wrapped: Any) -> None:
    store = InMemoryIdempotencyStore()
    driven(store.claim("id-1", "another"))
    ack = wrapped(store, pytest.fail, in_progress_delay=7)(message())
    assert (ack.kind, ack.delay) == (AckKind.IN_PROGRESS, 7.0)


def test_a_result_is_given_again(wrapped: Any) -> None:
    handle = wrapped(InMemoryIdempotencyStore(), lambda message: accept({"total": 12}))
    assert [handle(message()).result for _ in range(2)] == [{"total": 12}] * 2


def test_a_result_that_cannot_be_kept_is_told_and_not_kept(
    wrapped: Any, caplog: pytest.LogCaptureFixture
) -> None:
    handle = wrapped(InMemoryIdempotencyStore(), lambda message: accept(object()))
    assert handle(message()).kind is AckKind.ACCEPT
    assert handle(message()) == accept()
    assert "the result of 'id-1' is not kept" in caplog.text


class Failing(JsonCodec):
    """A codec of somebody's that fails in its own words."""

    def encode(self, payload: Any) -> bytes:
        raise LookupError("no schema")


def test_a_codec_that_fails_in_its_own_words_leaves_the_message_handled(
    wrapped: Any, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()
    handle = wrapped(InMemoryIdempotencyStore(), seen_and_accepted(seen), codec=Failing())
    assert [handle(message()).kind for _ in range(2)] == [AckKind.ACCEPT] * 2
    assert len(seen.messages) == 1
    assert "the result of 'id-1' is not kept: no schema" in caplog.text


def seen_and_accepted(seen: Seen) -> Callable[[Message], Ack]:
    def handler(message: Message) -> Ack:
        seen(message)
        return accept("done")

    return handler


# ------------------------------------------------------------ keys


def test_the_key_may_be_another(wrapped: Any) -> None:
    seen = Seen()
    handle = wrapped(InMemoryIdempotencyStore(), seen, key=lambda message: message.payload["order"])
    for id_, order in (("id-1", "a"), ("id-2", "a"), ("id-3", "b")):
        handle(message(id_, {"order": order}))
    assert [each["order"] for each in seen.payloads] == ["a", "b"]


@pytest.mark.parametrize("key", ["", None, 7])
def test_a_key_that_is_none_is_refused(wrapped: Any, key: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"id-1.*gives text"):
        wrapped(InMemoryIdempotencyStore(), pytest.fail, key=lambda message: key)(message())


def test_scopes_keep_handlers_apart(wrapped: Any) -> None:
    store, mail, bill = InMemoryIdempotencyStore(), Seen(), Seen()
    for _ in range(2):
        wrapped(store, mail, scope="mail")(message())
        wrapped(store, bill, scope="bill")(message())
    assert (len(mail.messages), len(bill.messages)) == (1, 1)


async def test_a_coroutine_function_may_tell_the_key() -> None:
    seen = Seen()

    async def handler(message: Message) -> None:
        seen(message)

    async def key(message: Message) -> str:
        return "same"

    handle = idempotent(InMemoryIdempotencyStore(), handler, key=key)
    await handle(message("id-1"))
    await handle(message("id-2"))
    assert len(seen.messages) == 1


# ------------------------------------------------------------ leases


def test_a_claim_lost_meanwhile_is_put_back_and_never_accepted(
    wrapped: Any, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    store = InMemoryIdempotencyStore(claim_timeout=60, clock=lambda: now[0])

    def overtaken(message: Message) -> None:
        now[0] += 61
        assert driven(store.claim("id-1", "another")) is Claim.CLAIMED

    assert wrapped(store, overtaken)(message()).kind is AckKind.IN_PROGRESS
    assert "its claim was lost" in caplog.text
    assert driven(store.confirm("id-1", "another")) is True


def _rejected(message: Message) -> Ack:
    return reject("no such order")


def _raised(message: Message) -> Ack:
    raise LookupError("no such order")


@pytest.mark.parametrize("failed", [_rejected, _raised])
def test_a_failure_after_the_claim_was_lost_decides_nothing(
    wrapped: Any, failed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    store = InMemoryIdempotencyStore(claim_timeout=60, clock=lambda: now[0])

    def overtaken(message: Message) -> Ack:
        now[0] += 61
        assert driven(store.claim("id-1", "another")) is Claim.CLAIMED
        answer: Ack = failed(message)
        return answer

    assert wrapped(store, overtaken)(message()).kind is AckKind.IN_PROGRESS
    assert "its claim was lost before its handler failed with" in caplog.text
    assert "no such order" in caplog.text
    assert driven(store.confirm("id-1", "another")) is True


class Renewed(InMemoryIdempotencyStore):
    """Tells when a claim was renewed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.renewed = threading.Semaphore(0)

    async def renew(self, key: str, holder: str = "") -> bool:
        kept = await super().renew(key, holder)
        self.renewed.release()
        return kept


def test_the_lease_is_renewed_while_a_plain_handler_runs() -> None:
    store = Renewed(claim_timeout=0.3)

    def handle(message: Message) -> None:
        for _ in range(3):  # three thirds of a lease, and more
            assert store.renewed.acquire(timeout=30)
        assert driven(store.claim("id-1", "another")) is Claim.IN_PROGRESS

    assert idempotent(store, handle)(message()).kind is AckKind.ACCEPT


async def test_the_lease_is_renewed_while_a_coroutine_runs() -> None:
    store = Renewed(claim_timeout=0.3)

    async def handle(message: Message) -> None:
        for _ in range(3):
            assert await asyncio.to_thread(store.renewed.acquire, True, 30)
        assert await store.claim("id-1", "another") is Claim.IN_PROGRESS

    assert (await idempotent(store, handle)(message())).kind is AckKind.ACCEPT


def test_the_wrapper_is_of_the_handler_s_sort_and_name() -> None:
    async def pay(message: Message) -> None: ...

    def ship(message: Message) -> None: ...

    store = InMemoryIdempotencyStore()
    assert inspect.iscoroutinefunction(idempotent(store, pay))
    assert not inspect.iscoroutinefunction(idempotent(store, ship))
    assert idempotent(store, ship).__name__ == "ship"


async def _key(message: Message) -> str:
    return "k"


@pytest.mark.parametrize(
    ("store", "handler", "options", "words"),
    [
        (object(), print, {}, "no idempotency store"),
        (InMemoryIdempotencyStore(), "print", {}, "has to be callable"),
        (InMemoryIdempotencyStore(), print, {"in_progress_delay": -1}, "negative"),
        (InMemoryIdempotencyStore(), print, {"key": _key}, "coroutine function"),
    ],
)
def test_what_cannot_work_is_refused_when_built(
    store: Any, handler: Any, options: Any, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        idempotent(store, handler, **options)


# ------------------------------------------------------------ consuming


async def test_repeats_in_a_queue_are_handled_once(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    store, seen = InMemoryIdempotencyStore(), Seen()

    async def handle(message: Message) -> None:
        seen(message)

    wrapper = idempotent(store, api.handler(handle))
    publisher = mq.publisher("", queue)
    for round_ in range(3):
        for number in range(20):
            envelope = Envelope(id=f"id-{number}")
            await publisher.send({"number": number, "round": round_}, envelope=envelope)
    consumers = [await mq.consume(queue, wrapper, concurrency=4) for _ in range(2)]
    await holds(mq, queue, 0)
    await until(lambda: not any(each.in_flight for each in consumers), "all handled")
    assert sorted(payload["number"] for payload in seen.payloads) == list(range(20))


async def test_a_repeat_waits_for_the_first_and_is_then_a_duplicate(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    mq = await api.connect()
    queue = await api.queue(mq)
    gate = api.gate()
    seen = Seen(gate.hold)
    plain = idempotent(InMemoryIdempotencyStore(), seen, in_progress_delay=0.05)
    consumer = await mq.consume(queue, plain, concurrency=2)
    for _ in range(2):
        await mq.publisher("", queue).send("x", envelope=Envelope(id="id-1"))
    await gate.holds(1)
    await until(lambda: consumer.unsettled or consumer.in_flight == 1, "the repeat put back")
    gate.open()
    await holds(mq, queue, 0)
    await until(lambda: not consumer.in_flight and not consumer.unsettled, "both settled")
    assert len(seen.messages) == 1
