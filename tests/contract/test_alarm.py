"""While the broker has an alarm: sends wait and then say so, and everything else goes on."""

from __future__ import annotations

import asyncio

import pytest

from acemq_amqp import (
    BatchError,
    Connection,
    HealthStatus,
    PublishError,
    PublishingPaused,
    PublishResult,
    fixed_retry,
    retry,
)
from tests.contract.api import Api, holds
from tests.contract.seen import Seen
from tests.contract.waiting import until


async def alarmed(api: Api, mq: Connection) -> None:
    """Raises the alarm and has the connection told, which a broker does at the next publish."""
    await api.stand.raise_alarm()
    queue = await api.queue(mq, "probe", quorum=False)
    with pytest.raises(PublishError):
        await mq.publisher("", queue).send("probe")
    await until(lambda: mq.blocked, "the connection to know")


async def test_a_send_waits_then_says_that_publishing_is_paused(troubled: Api) -> None:
    mq = await troubled.connect(timeout=0.5)
    queue = await troubled.queue(mq)
    await alarmed(troubled, mq)
    with pytest.raises(PublishingPaused) as paused:
        await mq.publisher("", queue).send("never")
    assert paused.value.stored == "no"
    assert paused.value.reason and paused.value.reason == mq.blocked_reason
    assert paused.value.reason in str(paused.value)


async def test_what_was_paused_never_turns_up_and_what_follows_does(troubled: Api) -> None:
    mq = await troubled.connect(timeout=0.5)
    queue = await troubled.queue(mq)
    await alarmed(troubled, mq)
    publisher = mq.publisher("", queue)
    with pytest.raises(PublishingPaused):
        await publisher.send("never")
    with pytest.raises(BatchError) as batch:
        await publisher.send_many(["never", "never"])
    assert [type(outcome) for outcome in batch.value.outcomes] == [PublishingPaused] * 2
    await troubled.stand.end_alarm()
    await until(lambda: not mq.blocked, "the connection to know")
    assert (await publisher.send("after")).routed
    seen = Seen()
    consumer = await mq.consume(queue, seen)
    await seen.first()
    await consumer.close()
    assert seen.payloads == ["after"]
    assert mq.outstanding == 0


async def test_a_send_that_waits_is_sent_when_the_alarm_ends(troubled: Api) -> None:
    mq = await troubled.connect(timeout=60.0)
    queue = await troubled.queue(mq)
    warm = await mq.publisher("", queue).send("before")
    await troubled.stand.raise_alarm()
    publisher = mq.publisher("", queue)
    sends = [asyncio.ensure_future(publisher.send(number)) for number in range(5)]
    await until(lambda: mq.blocked, "the connection to know")
    assert not any(send.done() for send in sends)
    await troubled.stand.end_alarm()
    results = await asyncio.gather(*sends)
    assert all(result.routed for result in [warm, *results])
    await holds(mq, queue, 6)


async def test_consumers_and_their_acks_go_on(troubled: Api) -> None:
    mq = await troubled.connect(timeout=0.5)
    queue = await troubled.queue(mq)
    await mq.publisher("", queue).send_many(range(50))
    await alarmed(troubled, mq)
    seen = Seen()
    consumer = await mq.consume(queue, seen)
    await seen.count(50)
    assert await consumer.close()
    assert await mq.message_count(queue) == 0


async def test_a_message_to_be_retried_stays_and_moves_after_the_alarm(troubled: Api) -> None:
    mq = await troubled.connect(timeout=0.5, retry=fixed_retry(2, 0))
    queue = await troubled.queue(mq)
    await mq.publisher("", queue).send_many(["fail", *range(20)])
    await alarmed(troubled, mq)
    seen = Seen(
        lambda message: (
            retry() if message.payload == "fail" and message.envelope.attempt == 1 else None
        )
    )
    consumer = await mq.consume(queue, seen)
    await seen.count(21)  # the rest flows
    assert consumer.unsettled == 1
    await troubled.stand.end_alarm()
    await seen.count(22)
    assert seen.attempts.count(2) == 1
    assert await consumer.close()
    await holds(mq, queue, 0)


async def test_a_close_returns_under_an_alarm(troubled: Api) -> None:
    mq = await troubled.connect(timeout=0.5)
    queue = await troubled.queue(mq)
    await mq.consume(queue, Seen())
    await alarmed(troubled, mq)
    publisher = mq.publisher("", queue)
    sends = [asyncio.ensure_future(publisher.send(number)) for number in range(3)]
    await mq.close(2.0)
    assert mq.closed
    outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert not any(isinstance(outcome, PublishResult) for outcome in outcomes)
    assert all(isinstance(outcome, PublishError) for outcome in outcomes)


async def test_health_tells_of_the_alarm(troubled: Api) -> None:
    mq = await troubled.connect(timeout=0.5)
    await alarmed(troubled, mq)
    report = await mq.health()
    assert report.status is HealthStatus.DEGRADED
    assert report.blocked and report.blocked == mq.blocked_reason
    assert any(report.blocked in problem for problem in report.problems)
    await troubled.stand.end_alarm()
    await until(lambda: not mq.blocked, "the connection to know")
    assert (await mq.health()).ok


async def test_a_window_that_is_full_of_paused_messages_tells_why(troubled: Api) -> None:
    mq = await troubled.connect(timeout=0.5, max_outstanding=1)
    queue = await troubled.queue(mq)
    await alarmed(troubled, mq)
    publisher = mq.publisher("", queue)
    sends = [asyncio.ensure_future(publisher.send(number)) for number in range(3)]
    outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [PublishingPaused] * 3
    assert mq.outstanding == 0
