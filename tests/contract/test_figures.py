"""What health reports and an observer hears: recoveries, pauses, confirms, consumers, handlers."""

from __future__ import annotations

from acemq_amqp import HealthStatus, Message, Metrics, PublishingPaused, retry
from acemq_amqp.metrics import Key
from tests.contract.api import Api, holds
from tests.contract.seen import Seen
from tests.contract.waiting import until


def gauge(name: str, **labels: str) -> Key:
    return name, tuple(sorted(labels.items()))


async def test_the_time_since_the_last_confirm(api: Api) -> None:
    metrics = Metrics()
    mq = await api.connect(observer=metrics)
    queue = await api.queue(mq)
    before = await mq.health()
    assert (before.since_confirm, before.outstanding) == (None, 0)
    await mq.publisher("", queue).send(1)
    first = (await mq.health()).since_confirm
    assert first is not None and 0 <= first < 60

    async def grown() -> bool:
        return ((await mq.health()).since_confirm or 0) > first

    await until(grown, "time to pass")
    await mq.publisher("", queue).send_many(range(3))
    told = (await mq.health()).since_confirm
    assert metrics.gauges[gauge("acemq.publish.since.confirm")] == told
    assert metrics.gauges[gauge("acemq.publish.outstanding")] == 0


async def test_consumers_wanted_and_confirmed(api: Api) -> None:
    metrics = Metrics()
    mq, other = await api.connect(observer=metrics), await api.connect()
    kept, gone = await api.queue(mq, "kept"), await api.queue(other, "gone")
    await mq.consume(kept, Seen())
    consumer = await mq.consume(gone, Seen())
    await other.delete_queue(gone)
    await until(lambda: not consumer.running, "the cancel to be seen")

    async def told() -> bool:  # RabbitMQ 4.3 may end the connection, and so both, for a moment
        report = await mq.health()
        return (report.consumers_wanted, report.consumers_confirmed) == (2, 1)

    await until(told, "one of two confirmed")
    assert metrics.gauges[gauge("acemq.consumers.wanted")] == 2
    assert metrics.gauges[gauge("acemq.consumers.confirmed")] == 1


async def test_handlers_in_flight_and_their_attempts(api: Api) -> None:
    metrics = Metrics()
    mq = await api.connect(observer=metrics)
    queue = await api.queue(mq)
    gate = api.gate()

    def handle(message: Message) -> object:
        gate.hold()
        return retry() if message.envelope.attempt == 1 else None

    in_flight = gauge("acemq.consume.in.flight", queue=queue)
    seen = Seen(handle)
    for _ in range(2):  # two consumers of one queue are told together
        await mq.consume(queue, seen, prefetch=1)
    await mq.publisher("", queue).send_many(range(2))
    await gate.holds(2)
    assert metrics.gauges[in_flight] == 2
    gate.open()
    await until(lambda: metrics.gauges[in_flight] == 0, "the handlers' ends")
    assert metrics.total("acemq.consume.attempts", queue=queue) == 2


async def test_a_message_that_is_put_back_is_told_from_a_retry(api: Api) -> None:
    metrics, seen = Metrics(), Seen()
    mq = await api.connect(observer=metrics)
    queue = await api.queue(mq, quorum=False)
    await mq.publisher("", queue).send(1)
    await holds(mq, queue, 1)
    pulled = await mq.pull(queue)
    assert pulled is not None
    await pulled.requeue()
    await mq.consume(queue, seen)
    assert (await seen.first()).envelope.attempt == 1
    retried = "acemq.messages.retried.total"
    await until(lambda: metrics.total(retried, queue=queue) == 1, "the put-back to be counted")
    assert metrics.total(retried, queue=queue, where="requeued") == 1


async def test_a_pause_is_told_as_it_comes_and_goes(troubled: Api) -> None:
    metrics = Metrics()
    mq = await troubled.connect(observer=metrics, timeout=1.0)
    queue = await troubled.queue(mq)
    await mq.publisher("", queue).send(1)
    blocked = gauge("acemq.connection.blocked", connection="publishing")
    assert metrics.gauges[blocked] == 0
    await troubled.stand.raise_alarm()

    async def paused() -> bool:
        try:
            await mq.publisher("", queue).send(2)
        except PublishingPaused:
            return True
        except Exception:  # what was in flight when the pause came
            return False
        return False

    await until(paused, "a pause")
    report = await mq.health()
    assert (report.status, metrics.gauges[blocked]) == (HealthStatus.DEGRADED, 1)
    assert report.blocked and any(report.blocked in problem for problem in report.problems)
    await troubled.stand.end_alarm()
    await until(lambda: metrics.gauges[blocked] == 0, "the end of it")


async def test_a_consumer_with_all_its_deliveries_on_their_way_is_stalled(troubled: Api) -> None:
    metrics = Metrics()
    mq = await troubled.connect(observer=metrics)
    queue = await troubled.queue(mq)
    gate = troubled.gate()

    def failing(message: Message) -> object:
        gate.hold()
        return retry()

    consumer = await mq.consume(queue, Seen(failing), prefetch=1)
    await mq.publisher("", queue).send(1)
    await gate.holds(1)
    await troubled.stand.raise_alarm()
    gate.open()
    await until(lambda: consumer.stalled, "a hop that the alarm holds up")
    report = await mq.health()
    assert report.stalled == (queue,)
    assert metrics.gauges[gauge("acemq.consumers.stalled")] == 1
    await troubled.stand.end_alarm()
    await until(lambda: not consumer.stalled, "the hop")


async def test_recoveries_are_counted(troubled: Api) -> None:
    metrics = Metrics()
    mq = await troubled.connect(observer=metrics)
    queue = await troubled.queue(mq)
    await mq.publisher("", queue).send(1)
    await troubled.stand.end_connections()
    for connection in ("consuming", "publishing"):
        name = "acemq.connection.recoveries"
        # awaited before the next turn of the loop
        await until(lambda: metrics.total(name, connection=connection) == 1, "the recovery")  # noqa: B023
    assert (await mq.health()).recoveries == 2
