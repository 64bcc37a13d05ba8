"""Health asks the broker something: up, down, or what is missing."""

from __future__ import annotations

from acemq_amqp import HealthStatus, aggregate_health
from tests.contract.api import Api
from tests.contract.seen import Seen
from tests.contract.waiting import until


async def test_a_connection_that_works_is_up(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    await mq.consume(queue, Seen())
    report = await mq.health()
    assert (report.status, report.problems, report.ok) == (HealthStatus.UP, (), True)
    assert (report.consumers_wanted, report.consumers_confirmed) == (1, 1)
    assert (report.blocked, report.stalled, report.recoveries) == (None, (), 0)


async def test_a_closed_connection_is_down(api: Api) -> None:
    mq = await api.connect()
    await mq.close()
    report = await mq.health(0.5)
    assert report.status is HealthStatus.DOWN
    assert any("closed" in problem for problem in report.problems)


async def test_a_connection_whose_broker_is_gone_is_down(troubled: Api) -> None:
    mq = await troubled.connect()
    queue = await troubled.queue(mq)
    consumer = await mq.consume(queue, Seen())
    await troubled.stand.stop()
    await until(lambda: not consumer.running, "the loss to be seen")
    report = await mq.health(0.5)
    assert report.status is HealthStatus.DOWN
    assert (report.consumers_wanted, report.consumers_confirmed) == (1, 0)
    assert any(queue in problem for problem in report.problems)


async def test_a_consumer_whose_queue_was_deleted_is_missing(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    queue = await api.queue(other)
    consumer = await mq.consume(queue, Seen())
    await other.delete_queue(queue)
    await until(lambda: not consumer.running, "the cancel to be seen")
    report = await mq.health()
    assert report.status is HealthStatus.DEGRADED
    assert any(queue in problem for problem in report.problems)


async def test_several_connections_are_as_well_as_the_worst(api: Api) -> None:
    mq, closed = await api.connect(), await api.connect()
    await closed.close()
    report = aggregate_health([await mq.health(), await closed.health(0.1)])
    assert report.status is HealthStatus.DOWN
