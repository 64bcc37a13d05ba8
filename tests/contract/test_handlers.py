"""How a handler is called, and that its delivery is settled once however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from typing import Any

import pytest

from acemq_amqp import Message, Topology, dead_letter_queue, fixed_retry, parked_queue, reject
from acemq_amqp.codecs.json import JsonCodec
from tests.contract.api import Api, arrived, holds
from tests.contract.seen import Seen, answering, by_payload, raising
from tests.contract.waiting import until


@pytest.mark.parametrize("returned", ["done", True, 0, {"ok": 1}], ids=repr)
async def test_another_returned_value_is_a_dead_letter_with_a_reason(
    api: Api, returned: Any
) -> None:
    mq = await api.connect(retry=fixed_retry(5, 0))
    queue = await api.queue(mq)
    seen = Seen(answering(returned))
    await mq.consume(queue, seen)
    await mq.publisher("", queue).send("order")
    error = (await arrived(mq, dead_letter_queue(queue))).headers["x-acemq-error"]
    assert error.startswith("the handler reported an unprocessable message: HandlerError")
    assert type(returned).__name__ in error
    assert len(seen.messages) == 1


async def test_a_coroutine_returned_by_a_plain_handler_is_dealt_with(api: Api) -> None:
    async def answer() -> Any:
        return reject("from a coroutine")

    mq = await api.connect()
    queue = await api.queue(mq)
    await mq.consume(queue, Seen(lambda message: answer()))
    await mq.publisher("", queue).send("order")
    error = (await arrived(mq, dead_letter_queue(queue))).headers["x-acemq-error"]
    if api.flavour.name == "async":
        assert error == "the handler rejected it: from a coroutine"
    else:
        assert "returned a coroutine" in error


@pytest.mark.parametrize("stopping", [SystemExit(), KeyboardInterrupt(), GeneratorExit()], ids=repr)
async def test_a_handler_that_tries_to_end_the_program_is_settled_once(
    api: Api, stopping: BaseException
) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    seen = Seen(by_payload(stop=raising(stopping)))
    await mq.consume(queue, seen)
    await mq.publisher("", queue).send("stop")
    aside = await arrived(mq, dead_letter_queue(queue))
    assert type(stopping).__name__ in aside.headers["x-acemq-error"]
    await mq.publisher("", queue).send("next")
    await seen.count(2)
    assert seen.payloads == ["stop", "next"]
    await holds(mq, queue, 0)


async def test_an_answer_that_came_too_late_harms_nobody(api: Api) -> None:
    """Its queue was deleted meanwhile, and the delivery with it."""
    mq, other = await api.connect(), await api.connect()
    queue, working = await api.queue(other), await api.queue(mq, "working")
    gate, seen = api.gate(), Seen()
    consumer = await mq.consume(queue, Seen(gate.hold))
    await mq.consume(working, seen)
    await mq.publisher("", queue).send(1)
    await gate.holds(1)
    await other.delete_queue(queue)
    await until(lambda: not consumer.running, "the cancel to be seen")
    gate.open()
    await until(lambda: consumer.in_flight == 0, "the handler to be done")
    await mq.publisher("", working).send("goes on")
    await seen.first()
    await consumer.close()
    assert (await mq.health()).ok


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
async def test_a_handler_that_cancels_itself_is_settled_once(api: Api) -> None:
    async def cancelling(message: Message) -> None:
        raise asyncio.CancelledError

    mq = await api.connect()
    queue = await api.queue(mq)
    await mq.consume(queue, cancelling)
    await mq.publisher("", queue).send_many([1, 2])
    for _ in range(2):
        aside = await arrived(mq, dead_letter_queue(queue))
        assert "CancelledError" in aside.headers["x-acemq-error"]
    await holds(mq, queue, 0)


async def test_a_handler_may_publish_declare_and_pull(api: Api) -> None:

    mq = await api.connect()
    queue, onward = await api.queue(mq), api.name("onward")
    pulled: list[Any] = []

    async def busy(message: Message) -> None:
        await mq.declare(Topology().queue(onward))
        await mq.publisher("", onward).send(message.payload)
        pulled.append(await mq.message_count(onward))

    await mq.consume(queue, api.handler(busy))
    await mq.publisher("", queue).send("order")
    assert (await arrived(mq, onward)).body == b'"order"'


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
async def test_a_plain_handler_sees_the_context_of_its_consumer(api: Api) -> None:
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant")
    tenant.set("north")
    mq = await api.connect()
    queue = await api.queue(mq)
    found: list[str] = []
    await mq.consume(queue, Seen(lambda message: found.append(tenant.get("none"))))
    await mq.publisher("", queue).send(1)
    await until(lambda: found, "the handler")
    assert found == ["north"]


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
@pytest.mark.parametrize("inline", [False, True], ids=["threaded", "inline"])
async def test_a_plain_handler_runs_in_a_thread_unless_inline(api: Api, inline: bool) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    threads: list[int] = []
    seen = Seen(lambda message: threads.append(threading.get_ident()))
    await mq.consume(queue, seen, inline=inline)
    await mq.publisher("", queue).send(1)
    await until(lambda: threads, "the handler")
    assert (threads[0] == threading.get_ident()) is inline


async def test_a_failure_that_is_final_leaves_its_traceback_in_the_log(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    def typo(message: Message) -> None:
        message.payload["nubmer"]

    mq = await api.connect()
    queue = await api.queue(mq)
    await mq.consume(queue, typo)
    await mq.publisher("", queue).send({"number": 7})
    await arrived(mq, dead_letter_queue(queue))
    [told] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert queue in told.getMessage() and "KeyError: 'nubmer'" in told.getMessage()
    assert told.exc_info is not None and isinstance(told.exc_info[1], KeyError)


async def test_a_codec_that_tries_to_end_the_program_parks_the_message(api: Api) -> None:
    class Leaving(JsonCodec):
        def decode(self, body: bytes, content_type: str | None = None) -> Any:
            if body == b'"leave"':
                raise SystemExit(4)
            return super().decode(body, content_type)

    mq = await api.connect()
    queue = await api.queue(mq)
    seen = Seen()
    await mq.consume(queue, seen, codec=Leaving())
    await mq.publisher("", queue).send_many(["leave", "stay"])
    assert "SystemExit" in (await arrived(mq, parked_queue(queue))).headers["x-acemq-error"]
    await seen.count(1)


async def test_a_consume_whose_caller_gave_up_leaves_no_consumer(api: Api) -> None:
    if api.flavour.name == "blocking":
        return  # a blocking call cannot be cancelled
    mq = await api.connect()
    queue = await api.queue(mq)
    for turns in range(30):
        starting = asyncio.ensure_future(mq.consume(queue, Seen()))
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await starting).close()
    await until(lambda: not mq.consumers, "no consumer left")
    await mq.publisher("", queue).send(1)
    await holds(mq, queue, 1)
