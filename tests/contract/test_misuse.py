"""What cannot work is refused where it is asked for, with a word on what to do."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

import acemq_amqp
from acemq_amqp import ConfigurationError, Message, Topology
from tests.contract.api import Api, holds
from tests.contract.seen import Seen
from tests.contract.waiting import until


async def test_a_closed_connection_neither_runs_nor_opens_a_block(api: Api) -> None:
    mq = await api.connect()
    await mq.close()
    with pytest.raises(ConfigurationError, match="closed; open a new one"):
        await mq.run()
    with pytest.raises(ConfigurationError, match="closed; open a new one"):
        async with mq:
            pass


async def test_a_run_after_a_close_from_inside_a_handler_ends(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)

    async def close(message: Message) -> None:
        await mq.close()

    await mq.consume(queue, api.handler(close))
    await mq.publisher("", queue).send(1)
    await until(lambda: mq.closed, "the handler's close")
    await mq.run()


async def test_a_run_inside_a_handler_is_refused(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    refused: list[str] = []

    async def run(message: Message) -> None:
        try:
            await mq.run()
        except ConfigurationError as refusal:
            refused.append(str(refusal))

    await mq.consume(queue, api.handler(run))
    await mq.publisher("", queue).send(1)
    await until(lambda: len(refused) == 1, "the refusal")
    assert "inside" in refused[0]


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
async def test_a_connect_gives_one_connection(api: Api) -> None:
    connecting = acemq_amqp.connect(api.stand.url)
    first, second = await asyncio.gather(_awaited(connecting), _awaited(connecting))
    assert isinstance(second, ConfigurationError)
    assert "call connect() again" in str(second)
    with pytest.raises(ConfigurationError, match="awaited already"):
        async with connecting:
            pass
    await first.close()


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
async def test_a_connect_that_failed_may_be_awaited_again(troubled: Api) -> None:
    await troubled.stand.stop()
    connecting = acemq_amqp.connect(troubled.stand.url, fail_fast=True)
    for _ in range(2):
        with pytest.raises(acemq_amqp.CannotConnect):
            await connecting


async def _awaited(connecting: Any) -> Any:
    try:
        return await connecting
    except ConfigurationError as refusal:
        return refusal


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
async def test_two_signals_at_once_are_one(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    queue = await api.queue(mq)
    gate = api.gate()
    consumer = await mq.consume(queue, Seen(gate.hold), prefetch=1)
    await mq.publisher("", queue).send_many(range(2))
    await gate.holds(1)
    running = asyncio.ensure_future(mq.run())
    await asyncio.sleep(0)  # it takes the signals in its first step
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    await until(lambda: not consumer.running, "the stop to begin")
    gate.open()
    await running
    assert consumer.in_time
    await holds(other, queue, 1)  # the other was handled to its end


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
async def test_a_signal_after_the_first_was_noticed_does_not_wait(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    queue = await api.queue(mq)
    gate = api.gate()
    consumer = await mq.consume(queue, Seen(gate.hold))
    await mq.publisher("", queue).send(1)
    await gate.holds(1)
    running = asyncio.ensure_future(mq.run())
    await asyncio.sleep(0)

    def forced() -> bool:
        if not running.done():
            os.kill(os.getpid(), signal.SIGTERM)
        return running.done()

    await until(forced, "a stop that does not wait")
    assert not consumer.in_time
    await holds(other, queue, 1)


@pytest.mark.parametrize("value", ["no", None, 0, 1])
@pytest.mark.parametrize("option", ["fail_fast", "retry_unknown"])
async def test_a_connection_takes_true_and_false_only(api: Api, option: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{option}= wants True or False"):
        await api.connect(**{option: value})


async def test_publishers_and_consumers_take_true_and_false_only(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    wrong: dict[str, Any]
    for wrong in ({"mandatory": "x"}, {"persistent": None}):
        with pytest.raises(ConfigurationError, match="wants True or False"):
            mq.publisher("", queue, **wrong)
    for option in ("declare", "single_active", "spill", "inline"):
        wrong = {option: "no"}
        with pytest.raises(ConfigurationError, match=f"{option}= wants True or False"):
            await mq.consume(queue, Seen(), **wrong)
    assert mq.consumers == ()


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ({"x-max-length": -1}, "correct the declaration"),
        ({"x-message-ttl": "soon"}, "correct the declaration"),
        ({"x-max-length": 5}, "declare it as it is, or delete it first"),
    ],
    ids=str,
)
async def test_a_refused_declaration_says_what_would_help(
    api: Api, arguments: dict[str, Any], advice: str
) -> None:
    mq = await api.connect()
    name = await api.queue(mq, quorum=False)
    other = name if arguments == {"x-max-length": 5} else api.name("other")
    with pytest.raises(acemq_amqp.DeclarationMismatch) as refused:
        await mq.declare(Topology().queue(other, quorum=False, args=arguments))
    assert advice in str(refused.value)
    assert other in str(refused.value)
