"""The broker itself is killed, stopped, paused, or throws its clients out."""

from __future__ import annotations

from collections.abc import Callable

from tests.chaos.conftest import Form
from tests.chaos.ledger import Ledger
from tests.chaos.load import Load
from tests.contract import threads
from tests.contract.waiting import until
from tests.support.rabbitmq import RabbitMQ

Enter = Callable[[Ledger, str], None]


async def test_a_killed_broker(
    load: Load, form: Form, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    node = own_rabbitmq
    await load.open(node.url, quorum=False, retry_unknown=False)
    load.start()
    for _ in range(form.repeats):
        await load.flows()
        await threads.run(node.persist)
        await threads.run(node.kill)
        await load.sends_hang()
        await threads.run(node.boot)
        await load.flows(within=15.0)
    await load.finish()
    enter(load.ledger, node.version)


async def test_a_thousand_messages_a_second_across_a_kill(
    load: Load, form: Form, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    node = own_rabbitmq
    await load.open(node.url)
    load.start(senders=8, rest=0.004)
    for _ in range(form.repeats):
        await load.flows(1000)
        await threads.run(node.persist)
        await threads.run(node.kill)
        await load.sends_hang()
        await threads.run(node.boot)
        await load.flows(1000)
    await load.finish()
    assert not load.ledger.refused, "an error surfaced"
    assert not load.ledger.unknown, "an error surfaced"
    enter(load.ledger, node.version)


async def test_a_broker_shut_down_and_started_again(
    load: Load, form: Form, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    node = own_rabbitmq
    await load.open(node.url)
    load.start()
    await load.flows()
    await threads.run(node.restart)
    await load.flows(within=15.0)
    await load.finish()
    enter(load.ledger, node.version)


async def test_a_broker_that_stands_still(
    load: Load, form: Form, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    node = own_rabbitmq
    await load.open(f"{node.url}?heartbeat=2")
    load.start()
    for _ in range(form.repeats):
        await load.flows()
        await threads.run(node.pause)
        await until(lambda: not load.consumer.running, "the silence to be noticed")
        await threads.run(node.resume)
        await load.flows()
    await load.finish()
    enter(load.ledger, node.version)


async def test_connections_closed_by_the_operator(
    load: Load, form: Form, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    node = own_rabbitmq
    await load.open(node.url)
    load.start(senders=8)
    for _ in range(3 * form.repeats):
        await load.flows()
        await threads.run(node.close_connections)
    await load.flows()
    assert await load.recoveries() >= 3
    await load.finish()
    enter(load.ledger, node.version)
