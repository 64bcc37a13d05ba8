"""Declaring and looking up: each call gets its own answer or its own error."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from acemq_amqp.core.ports import (
    Confirmed,
    Outgoing,
)
from acemq_amqp.errors import (
    AccessRefused,
    BrokerTimeout,
    DeclarationMismatch,
)
from acemq_amqp.fieldtable import HeaderTable, encode_table
from acemq_amqp.properties import Properties
from acemq_amqp.topology import BindingDeclaration, ExchangeDeclaration, QueueDeclaration
from tests.support.proxy import Proxy
from tests.support.rabbitmq import RabbitMQ
from tests.transports.aiopika.stand import Told, connected, linked, publish, queue, soon

pytestmark = pytest.mark.server


async def test_declares_what_was_asked(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        for name, kind in (("source", "headers"), ("target", "fanout")):
            await link.declare(
                ExchangeDeclaration(name, kind, durable=True, auto_delete=False, arguments={}),
                soon(),
            )
        await link.declare(queue("ünïcode & % *"), soon())
        await link.declare(
            BindingDeclaration("target", "source", "", {"ratio": 1.5}, to_exchange=True), soon()
        )
        await link.declare(BindingDeclaration("ünïcode & % *", "target", "", {}), soon())
        headers = Properties(message_id="m", headers=HeaderTable(encode_table({"ratio": 1.5})))
        outgoing = Outgoing("source", "", "m", headers.encode(), b"x")
        assert await publish(link, outgoing) == [Confirmed()]
        assert await link.look_up_exchange("source", soon())
        assert await link.look_up_exchange("", soon())
        assert not await link.look_up_exchange("nowhere", soon())
        assert await link.look_up_queue("nowhere", soon()) is None
        assert await link.purge_queue("ünïcode & % *", soon()) == 1
        assert await link.delete_queue("ünïcode & % *", soon()) == 0


async def test_mismatch_names_the_queue_and_the_argument(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q", **{"x-message-ttl": 1000}), soon())
        with pytest.raises(DeclarationMismatch) as caught:
            await link.declare(queue("q", **{"x-message-ttl": 2000}), soon())
        assert caught.value.code == 406
        for part in ("queue 'q'", "x-message-ttl", "2000", "1000"):
            assert part in str(caught.value)
        await link.declare(queue("q", **{"x-message-ttl": 1000}), soon())


def exchange(**options: Any) -> ExchangeDeclaration:
    return replace(ExchangeDeclaration("x", "direct"), **options)


@pytest.mark.parametrize(
    ("kept", "asked"),
    [
        (queue("q"), QueueDeclaration("q", durable=False)),
        (queue("q"), QueueDeclaration("q", durable=True, auto_delete=True)),
        (exchange(), exchange(kind="topic")),
        (exchange(), exchange(durable=False)),
        (exchange(), exchange(auto_delete=True)),
        (exchange(), exchange(arguments={"alternate-exchange": "other"})),
    ],
)
async def test_each_difference_is_a_mismatch(own_rabbitmq: RabbitMQ, kept: Any, asked: Any) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(kept, soon())
        await link.declare(kept, soon())
        with pytest.raises(DeclarationMismatch, match=f"'{kept.name}'"):
            await link.declare(asked, soon())


async def test_exclusive_queue_is_refused_to_others(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as owner:
        await owner.declare(QueueDeclaration("mine", durable=False, exclusive=True), soon())
        other = await connected(own_rabbitmq.url, Told())
        with pytest.raises(AccessRefused, match="exclusively"):
            await other.look_up_queue("mine", soon())
        await other.close(soon(5.0))


async def test_calls_at_once_each_get_their_own_answer(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await asyncio.gather(*(link.declare(queue(f"q{n}"), soon()) for n in range(0, 20, 2)))
        found = await asyncio.gather(*(link.look_up_queue(f"q{n}", soon()) for n in range(20)))
        assert [state is not None for state in found] == [n % 2 == 0 for n in range(20)]


async def test_call_without_answer_times_out_and_the_next_works(own_rabbitmq: RabbitMQ) -> None:
    with Proxy(own_rabbitmq.port) as proxy:
        async with linked(own_rabbitmq.url_of("/", proxy.port)) as link:
            await link.declare(queue("q"), soon())
            proxy.hold()
            with pytest.raises(BrokerTimeout, match="looking up queue 'q'"):
                await link.look_up_queue("q", soon(0.1))
            proxy.resume()
            assert await link.look_up_queue("q", soon()) is not None


async def test_cancelled_call_leaves_the_link_usable(own_rabbitmq: RabbitMQ) -> None:
    with Proxy(own_rabbitmq.port) as proxy:
        async with linked(own_rabbitmq.url_of("/", proxy.port)) as link:
            await link.declare(queue("q"), soon())
            proxy.hold()
            asking = asyncio.create_task(link.look_up_queue("q", soon()))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            proxy.resume()
            assert await link.look_up_queue("q", soon()) is not None
