"""Alarms: nothing is written after Blocked, and a close returns."""

from __future__ import annotations

import asyncio

import pytest

from acemq_amqp.core.ports import (
    Confirmed,
    Unknown,
    Unsent,
)
from tests.support.rabbitmq import RabbitMQ
from tests.transports.aiopika.stand import (
    Consumer,
    Told,
    connected,
    linked,
    message,
    queue,
    quiet,
    soon,
)

pytestmark = pytest.mark.server


async def test_alarm_pauses_and_what_is_withdrawn_never_turns_up(own_rabbitmq: RabbitMQ) -> None:
    told = Told()
    async with linked(own_rabbitmq.url, told) as link:
        await link.declare(queue("q"), soon())
        own_rabbitmq.alarm()
        first = link.submit(message(message_id="first"))
        reason = await asyncio.wait_for(told.blocked.get(), 30)
        assert link.blocked_reason == reason != ""
        paused = await link.submit(message(message_id="paused")).outcome(soon(0.1))
        assert paused == Unsent(reason, paused=True)
        waiting = link.submit(message(message_id="waiting"))
        own_rabbitmq.clear_alarm()
        await asyncio.wait_for(told.unblocked.wait(), 30)
        assert link.blocked_reason is None
        assert await first.outcome(soon()) == await waiting.outcome(soon()) == Confirmed()
        consumer = await Consumer.start(link)
        ids = [arrival.properties.message_id for arrival in await consumer.take(2)]
        assert ids == ["first", "waiting"]
        assert consumer.arrivals.empty()


async def test_close_returns_in_an_alarm(own_rabbitmq: RabbitMQ) -> None:
    told = Told()
    async with quiet():
        link = await connected(own_rabbitmq.url, told)
        await link.declare(queue("q"), soon())
        own_rabbitmq.alarm()
        written = link.submit(message(message_id="written"))
        await asyncio.wait_for(told.blocked.get(), 30)
        queued = link.submit(message(message_id="queued"))
        await link.close(soon(0.5))
        assert isinstance(await written.outcome(soon()), Unknown)
        assert isinstance(await queued.outcome(soon()), Unsent)
        assert not told.losses
        del link, written, queued
    own_rabbitmq.clear_alarm()
