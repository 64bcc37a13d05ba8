"""Publishing against a real RabbitMQ: each message gets its own outcome."""

from __future__ import annotations

import asyncio

import pytest

from acemq_amqp.core.ports import (
    Confirmed,
    Outcome,
    Refused,
    Unknown,
    Unsent,
)
from tests.support.proxy import Proxy
from tests.support.rabbitmq import RabbitMQ
from tests.transports.aiopika.stand import Consumer, linked, message, publish, queue, soon

pytestmark = pytest.mark.server


async def test_confirmed_publish_is_stored(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        assert await publish(link, message()) == [Confirmed()]
        state = await link.look_up_queue("q", soon())
        assert state is not None and state.messages == 1


async def test_order_is_kept_and_each_outcome_is_told_once(own_rabbitmq: RabbitMQ) -> None:
    told: list[Outcome] = []
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        messages = [message(body=b"%d" % n, message_id=str(n)) for n in range(500)]
        pending = [link.submit(one, told.append) for one in messages]
        for one in pending:
            assert await one.outcome(soon()) == Confirmed()
        consumer = await Consumer.start(link, prefetch=500)
        bodies = [arrival.body for arrival in await consumer.take(500)]
    assert bodies == [b"%d" % n for n in range(500)]
    assert told == [Confirmed()] * 500


async def test_publishing_from_another_thread(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        pending = await asyncio.to_thread(link.submit, message())
        assert await pending.outcome(soon()) == Confirmed()


async def test_unroutable_among_routed(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        first, lost, last = await publish(
            link, message(message_id="1"), message("nobody", message_id="2"), message()
        )
        assert (first, last) == (Confirmed(), Confirmed())
        assert isinstance(lost, Confirmed) and not lost.routed and "NO_ROUTE" in lost.reason


async def test_equal_messages_get_the_outcome_of_their_own(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        outcomes = await publish(
            link, message(), message("nobody"), message(), message("nobody"), message("nobody")
        )
    assert [isinstance(o, Confirmed) and o.routed for o in outcomes] == [
        True,
        False,
        True,
        False,
        False,
    ]


async def test_missing_exchange_is_refused_and_later_messages_go_on(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, message())
        before, culprit, after = (
            link.submit(message(message_id="before")),
            link.submit(message(exchange="missing", message_id="culprit")),
            link.submit(message(message_id="after")),
        )
        refusal = await culprit.outcome(soon())
        assert isinstance(refusal, Refused) and refusal.code == 404 and "missing" in refusal.reason
        assert isinstance(await before.outcome(soon()), Confirmed | Unknown)
        assert isinstance(await after.outcome(soon()), Unknown)
        assert await publish(link, message(message_id="next")) == [Confirmed()]


async def test_what_waited_goes_on_to_the_next_channel(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        # Of equal messages one is in flight at a time, so the second outlives the channel.
        twins = await publish(link, message(exchange="missing"), message(exchange="missing"))
        assert [isinstance(twin, Refused) and twin.code for twin in twins] == [404, 404]


async def test_nack_is_a_refusal_that_may_have_been_stored(own_rabbitmq: RabbitMQ) -> None:
    full = queue("full", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    async with linked(own_rabbitmq.url) as link:
        await link.declare(full, soon())
        first, second = await publish(
            link, message("full", message_id="1"), message("full", message_id="2")
        )
        assert first == Confirmed()
        assert isinstance(second, Refused) and second.stored == "perhaps"


@pytest.mark.parametrize("size", [0, 131_064, 131_065, 5_000_000])
async def test_bodies_of_any_size_come_back(own_rabbitmq: RabbitMQ, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        assert await publish(link, message(body=body)) == [Confirmed()]
        arrival = await link.pull("q", soon())
        assert arrival is not None and arrival.body == body and arrival.settling.ack(arrival.tag)


async def test_cancelled_waiting_leaves_the_publish_alone(own_rabbitmq: RabbitMQ) -> None:
    told: asyncio.Queue[Outcome] = asyncio.Queue()
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        pending = link.submit(message(), told.put_nowait)
        waiting = asyncio.create_task(pending.outcome(soon()))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await asyncio.wait_for(told.get(), 30) == Confirmed()
        assert await pending.outcome(soon()) == Confirmed()


async def test_no_confirm_in_time_is_unknown(own_rabbitmq: RabbitMQ) -> None:
    with Proxy(own_rabbitmq.port) as proxy:
        async with linked(own_rabbitmq.url_of("/", proxy.port)) as link:
            await link.declare(queue("q"), soon())
            await publish(link, message())
            proxy.hold()
            outcome = await link.submit(message(message_id="late")).outcome(soon(0.2))
            assert isinstance(outcome, Unknown)
            proxy.resume()
            assert await publish(link, message(message_id="next")) == [Confirmed()]


async def test_slow_socket_leaves_publishes_withdrawable(own_rabbitmq: RabbitMQ) -> None:
    with Proxy(own_rabbitmq.port) as proxy:
        async with linked(own_rabbitmq.url_of("/", proxy.port)) as link:
            await link.declare(queue("q"), soon())
            await publish(link, message())
            proxy.hold()
            body = bytes(1_000_000)
            pending = [link.submit(message(body=body, message_id=str(n))) for n in range(30)]
            early = await pending[-1].outcome(soon(0.2))
            assert isinstance(early, Unsent) and not early.paused
            proxy.resume()
            outcomes = [await one.outcome(soon()) for one in pending[:-1]]
            assert outcomes == [Confirmed()] * 29
            state = await link.look_up_queue("q", soon())
            assert state is not None and state.messages == 30
