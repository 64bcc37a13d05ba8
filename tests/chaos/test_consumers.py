"""What the broker does to consumers while their connection is well."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from acemq_amqp import ConsumerEnded, HealthStatus, Message, PublishRefused, Topology
from acemq_amqp.core import keeper
from tests.chaos.conftest import Form
from tests.chaos.ledger import Ledger
from tests.chaos.load import Load
from tests.chaos.wreck import acknowledge_nonsense
from tests.contract import threads
from tests.contract.seen import Gate, Seen
from tests.contract.waiting import until
from tests.support.proxy import Proxy
from tests.support.rabbitmq import RabbitMQ

Enter = Callable[[Ledger, str], None]


async def delete(node: RabbitMQ, queue: str) -> None:
    await threads.run(lambda: node.ctl("delete_queue", queue))


async def consumers(node: RabbitMQ, queue: str) -> list[int]:
    """The prefetch of each consumer that the broker has for a queue."""
    listed = await threads.run(node.list_consumers)
    return [each["prefetch_count"] for each in listed if each["queue_name"] == queue]


async def test_a_deleted_queue_of_ours_is_declared_again(
    load: Load, form: Form, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    await load.open(own_rabbitmq.url)
    for _ in range(form.repeats):
        await load.sent(20)
        await until(lambda: not load.ledger.outstanding, "all handled")
        await delete(own_rabbitmq, load.queue)
        await until(lambda: load.mq.queue_exists(load.queue), "the queue declared again")
        await until(lambda: load.consumer.running, "a consumer on it")
        await load.sent(20)
    await load.finish(faulty=False)
    enter(load.ledger, own_rabbitmq.version)


async def test_a_deleted_queue_of_somebody_else_that_comes_back(
    load: Load, form: Form, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    topology = Topology().queue(load.queue)
    async with await load.flavour.connect(own_rabbitmq.url) as somebody_else:
        await somebody_else.declare(topology)
        await load.open(own_rabbitmq.url, declares=False)
        for _ in range(form.repeats):
            await load.sent(20)
            await until(lambda: not load.ledger.outstanding, "all handled")
            await somebody_else.delete_queue(load.queue)
            await until(lambda: not load.consumer.running, "the end of the consumer")
            report = await load.health()
            assert report.status is HealthStatus.DEGRADED
            assert (report.consumers_wanted, report.consumers_confirmed) == (1, 0)
            assert load.queue in str(report.problems)
            await somebody_else.declare(topology)
            await until(lambda: load.consumer.running, "a consumer on it")
        await load.sent(20)
        await load.finish(faulty=False)
    enter(load.ledger, own_rabbitmq.version)


async def test_a_deleted_queue_that_stays_away(
    load: Load, own_rabbitmq: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "_PATIENCE", 0.5)
    async with await load.flavour.connect(own_rabbitmq.url) as somebody_else:
        await somebody_else.declare(Topology().queue(load.queue))
        await load.open(own_rabbitmq.url, declares=False)
        await somebody_else.delete_queue(load.queue)
        with pytest.raises(ConsumerEnded, match=load.queue) as told:
            await load.mq.run()
    assert told.value.code == 404
    assert "declare the queue again" in str(told.value)
    assert load.consumer.closed
    assert load.consumer.error is not None and str(load.consumer.error) == str(told.value)


async def test_a_channel_closed_by_the_broker(
    load: Load, form: Form, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    """It takes the deliveries in flight with it, and nothing else."""
    await load.open(own_rabbitmq.url)
    other = Seen()
    await load.mq.declare(Topology().queue(f"{load.queue}.other"))
    neighbour = await load.mq.consume(f"{load.queue}.other", other)
    load.start()
    for number in range(3 * form.repeats):
        await load.flows()
        acknowledge_nonsense(load.consumer)
        await load.mq.publisher("", f"{load.queue}.other").send(number)
        await other.count(number + 1)
    await load.flows()
    assert neighbour.running
    assert await load.recoveries() == 0
    await load.finish()
    enter(load.ledger, own_rabbitmq.version)


async def test_an_exchange_deleted_under_its_publishers(
    load: Load, form: Form, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    """The broker closes the channel (404) under those who publish elsewhere."""
    await load.open(own_rabbitmq.url)
    load.start()
    publisher = load.mq.publisher(f"{load.queue}.exchange")
    async with await load.flavour.connect(own_rabbitmq.url) as somebody_else:
        for _ in range(3 * form.repeats):
            await load.flows()
            await somebody_else.declare(Topology().exchange(publisher.exchange, "fanout"))
            await publisher.send("nobody")
            await threads.run(lambda: delete_exchange(own_rabbitmq, publisher.exchange))
            with pytest.raises(PublishRefused, match=publisher.exchange) as refused:
                await publisher.send("nobody")
            assert refused.value.code == 404
    await load.flows()
    assert await load.recoveries() == 0
    await load.finish()
    assert not load.ledger.refused
    enter(load.ledger, own_rabbitmq.version)


def delete_exchange(node: RabbitMQ, name: str) -> None:
    resource = f'rabbit_misc:r(<<"/">>, exchange, <<"{name}">>)'
    node.eval(f'rabbit_exchange:delete({resource}, false, <<"tests">>)')


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Holds handlers, and is open in the end whatever happened."""
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def impatient(own_rabbitmq: RabbitMQ) -> Iterator[RabbitMQ]:
    """A broker that gives a consumer two seconds for each delivery, and looks every second."""
    own_rabbitmq.eval(
        "application:set_env(rabbit, consumer_timeout, 2000), "
        "application:set_env(rabbit, channel_tick_interval, 500), "
        "application:set_env(rabbit, quorum_tick_interval, 500)"
    )
    yield own_rabbitmq
    own_rabbitmq.eval(
        "application:set_env(rabbit, consumer_timeout, 1800000), "
        "application:set_env(rabbit, channel_tick_interval, 60000), "
        "application:set_env(rabbit, quorum_tick_interval, 5000)"
    )


@pytest.mark.parametrize("kind", ["quorum", "classic"])
async def test_a_handler_that_outlasts_the_consumer_timeout(
    load: Load,
    kind: str,
    impatient: RabbitMQ,
    enter: Enter,
    gate: Gate,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The second delivery waits for the end of the first and gets its answer; others go on."""
    if kind == "classic" and impatient.version.startswith("4.3"):
        pytest.skip("RabbitMQ 4.3 gives deliveries of a classic queue all the time they take")

    def hold_the_first(message: Message) -> None:
        if message.payload == 0:
            gate.hold()

    await load.open(impatient.url, quorum=kind == "quorum", answer=hold_the_first, consumes=False)
    await load.consume(concurrency=3)
    await load.sent(10)
    await gate.holds(1)
    await until(lambda: "was ended" in caplog.text, "the broker to lose its patience")
    await until(lambda: load.consumer.running, "the consumer to be back")
    await load.sent(10)
    await until(lambda: len(load.ledger.outstanding) == 1, "the others handled")
    assert gate.most == 1
    gate.open()
    await load.finish()
    assert load.ledger.handled[0] == 1
    enter(load.ledger, impatient.version)


async def test_an_exclusive_queue_that_is_still_locked(
    load: Load,
    own_rabbitmq: RabbitMQ,
    proxy_to: Callable[[int], Proxy],
    enter: Enter,
) -> None:
    """The broker holds it for a connection whose end it was not told of (405), for a while."""
    proxy = proxy_to(own_rabbitmq.port)
    queues = (f"{load.queue}.mine", f"{load.queue}.shared")
    await load.open(f"{own_rabbitmq.url_of('/', proxy.port)}?heartbeat=2")
    await load.mq.declare(Topology().queue(queues[0], exclusive=True, durable=False))
    await load.mq.declare(Topology().queue(queues[1], exclusive=True, durable=False))
    mine = Seen()
    consumer = await load.mq.consume(queues[0], mine)
    load.start()
    await load.flows()
    proxy.orphan()
    await until(lambda: not consumer.running, "the loss to be noticed")
    await load.flows()  # a queue that is locked holds up no other
    await until(lambda: consumer.running, "the lock to be gone")
    await load.mq.publisher("", queues[0]).send("again")
    await mine.first()
    await until(lambda: load.mq.queue_exists(queues[1]), "one that nobody consumes from, too")
    await load.finish()
    enter(load.ledger, own_rabbitmq.version)


async def test_prefetch_and_confirms_after_a_lost_connection(
    load: Load, own_rabbitmq: RabbitMQ
) -> None:
    await load.open(own_rabbitmq.url, consumes=False)
    await load.consume(prefetch=7)
    await load.sent(1)
    await until(lambda: prefetch_is(own_rabbitmq, load, 7), "the whole prefetch")
    before = await load.recoveries()
    await threads.run(own_rabbitmq.close_connections)
    await load.recovers(before + 1)
    await load.sent(20)  # each confirmed
    await until(lambda: prefetch_is(own_rabbitmq, load, 7), "the whole prefetch")
    await load.finish()


async def prefetch_is(node: RabbitMQ, load: Load, prefetch: int) -> bool:
    return await consumers(node, load.queue) == [prefetch]


async def test_a_consumer_that_nobody_refers_to(load: Load, own_rabbitmq: RabbitMQ) -> None:
    await load.open(own_rabbitmq.url)
    queue, seen = f"{load.queue}.forgotten", Seen()

    async def begin() -> None:
        await load.mq.declare(Topology().queue(queue))
        await load.mq.consume(queue, lambda message: seen(message))

    await begin()
    gc.collect()
    for number in range(3):
        before = await load.recoveries()
        await threads.run(own_rabbitmq.close_connections)
        await load.recovers(before)
        gc.collect()
        await load.mq.publisher("", queue).send(number)
        await seen.count(number + 1)
    await load.sent(1)
    await load.finish()
