"""The network fails between the toolkit and a broker that is well."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from acemq_amqp import Message, fixed_retry, retry
from tests.chaos.conftest import Form
from tests.chaos.ledger import Ledger
from tests.chaos.load import Load
from tests.contract import threads
from tests.contract.waiting import until
from tests.support.proxy import Proxy
from tests.support.rabbitmq import RabbitMQ

Enter = Callable[[Ledger, str], None]


@pytest.fixture
def proxy(own_rabbitmq: RabbitMQ, proxy_to: Callable[[int], Proxy]) -> Proxy:
    """A way to the broker that fails on demand."""
    return proxy_to(own_rabbitmq.port)


def through(proxy: Proxy, node: RabbitMQ, heartbeat: int = 60) -> str:
    return f"{node.url_of('/', proxy.port)}?heartbeat={heartbeat}"


async def test_a_cut_connection(
    load: Load, form: Form, proxy: Proxy, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    await load.open(through(proxy, own_rabbitmq))
    load.start()
    for _ in range(3 * form.repeats):
        await load.flows()
        proxy.cut()
    await load.flows()
    assert (await load.health()).recoveries >= 3
    await load.finish()
    enter(load.ledger, own_rabbitmq.version)


async def test_a_cut_with_unknown_outcomes_told(
    load: Load, form: Form, proxy: Proxy, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    await load.open(through(proxy, own_rabbitmq), retry_unknown=False)
    load.start()
    for _ in range(3 * form.repeats):
        await load.flows()
        proxy.cut()
    await load.flows()
    await load.finish()
    enter(load.ledger, own_rabbitmq.version)


async def test_a_blackhole_without_a_word(
    load: Load, form: Form, proxy: Proxy, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    await load.open(through(proxy, own_rabbitmq, heartbeat=2))
    load.start()
    for _ in range(form.repeats):
        await load.flows()
        tries = proxy.accepted
        proxy.blackhole()
        await until(lambda: not load.consumer.running, "the silence to be noticed")
        await accepts_more(proxy, tries)
        assert not (await load.mq.health(0.5)).ok
        proxy.resume()
        await load.flows()
    await load.finish()
    enter(load.ledger, own_rabbitmq.version)


async def test_a_connection_half_open(
    load: Load, form: Form, proxy: Proxy, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    await load.open(through(proxy, own_rabbitmq, heartbeat=2))
    load.start()
    for _ in range(form.repeats):
        await load.flows()
        before = await load.recoveries()
        proxy.half_open()
        await load.recovers(before)
        await load.flows()
    await load.finish()
    enter(load.ledger, own_rabbitmq.version)


async def test_a_slow_network(
    load: Load, form: Form, proxy: Proxy, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    proxy.delay(0.1)
    await load.open(through(proxy, own_rabbitmq, heartbeat=2))
    load.start()
    await load.flows(15 * form.scale)
    assert (await load.health()).recoveries == 0
    await load.finish(faulty=False)
    enter(load.ledger, own_rabbitmq.version)


async def test_a_network_that_holds_everything_for_a_while(
    load: Load, form: Form, proxy: Proxy, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    await load.open(through(proxy, own_rabbitmq))
    load.start()
    await load.flows()
    proxy.hold()
    await load.sends_hang()
    proxy.resume()
    await load.flows(20 * form.scale)
    await load.finish(faulty=False)
    enter(load.ledger, own_rabbitmq.version)


async def test_a_broker_that_cannot_be_reached_for_a_while(
    load: Load, form: Form, proxy: Proxy, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    await load.open(through(proxy, own_rabbitmq))
    load.start()
    for _ in range(form.repeats):
        await load.flows()
        await threads.run(proxy.refuse)
        proxy.cut()
        await load.sends_hang()
        proxy.resume()
        await load.flows()
    await load.finish()
    enter(load.ledger, own_rabbitmq.version)


async def accepts_more(proxy: Proxy, before: int) -> None:
    """Waits for a try to connect, which fails."""
    await until(lambda: proxy.accepted > before, "a try to connect")


async def test_waits_that_are_held_when_the_connection_is_lost(
    load: Load, proxy: Proxy, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    """Their deliveries come again and wait again; what was held is forgotten, not moved twice."""
    waits = fixed_retry(3, 1.0)

    def fail_once(message: Message) -> object:
        return retry() if message.envelope.attempt == 1 else None

    await load.open(through(proxy, own_rabbitmq), answer=fail_once, retry=waits, consumes=False)
    await load.consume(prefetch=40, spill=False)
    await load.sent(20)
    await until(lambda: load.consumer.unsettled == 20, "waits that are held")
    proxy.cut()
    await until(lambda: not load.ledger.outstanding, "all handled")
    await load.finish(faulty=False)
    enter(load.ledger, own_rabbitmq.version)
