"""A broker with a memory alarm takes no messages; everything else goes on."""

from __future__ import annotations

import time
from collections.abc import Callable

from acemq_amqp import Message, fixed_retry, retry
from tests.chaos.conftest import Form
from tests.chaos.ledger import Ledger
from tests.chaos.load import DEADLINE, Load
from tests.contract import threads
from tests.contract.waiting import until
from tests.support.rabbitmq import RabbitMQ

Enter = Callable[[Ledger, str], None]

_BACKLOG = 100
#: Every tenth message fails once: fewer than the prefetch, so that the rest flows.
_FAILING = 10


def fail_once(message: Message) -> object:
    fails = message.payload % _FAILING == 0 and message.payload < _BACKLOG
    return retry() if fails and message.envelope.attempt == 1 else None


async def test_a_memory_alarm(load: Load, form: Form, own_rabbitmq: RabbitMQ, enter: Enter) -> None:
    node, ledger = own_rabbitmq, load.ledger
    await load.open(
        node.url, timeout=3.0, consumes=False, answer=fail_once, retry=fixed_retry(3, 0)
    )
    await load.sent(_BACKLOG)
    await threads.run(node.alarm)
    load.start()
    wanted = 8 * form.repeats
    await until(lambda: len(ledger.refused) >= wanted, "sends that are paused", DEADLINE)
    await load.consume(concurrency=1)
    accepted = _BACKLOG - _BACKLOG // _FAILING
    await until(lambda: len(ledger.handled) == accepted, "accepts that go on")
    assert load.consumer.unsettled == _BACKLOG // _FAILING
    report = await load.health()
    assert report.blocked and report.blocked in str(report.problems)
    assert all(report.blocked in why for why in ledger.refused.values())
    await load.stop_sending()
    await threads.run(node.clear_alarm)
    await load.finish()
    # What was in flight when the broker said so: one message of each publisher, and every hop.
    assert len(ledger.unknown) <= 4
    enter(ledger, node.version)


async def test_a_close_under_a_memory_alarm(
    load: Load, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    node = own_rabbitmq
    await load.open(
        node.url, timeout=60.0, consumes=False, answer=fail_once, retry=fixed_retry(3, 0)
    )
    await load.sent(_BACKLOG)
    await threads.run(node.alarm)
    load.start()
    await load.sends_hang()
    await load.consume()
    await until(lambda: load.consumer.unsettled == _BACKLOG // _FAILING, "hops that wait")
    await until(lambda: load.mq.blocked, "the broker's word")
    began = time.monotonic()
    assert not await load.mq.close(2.0)
    took = time.monotonic() - began
    await load.stop_sending()
    await threads.run(node.clear_alarm)
    second = Load(load.flavour, load.queue)
    second.ledger = load.ledger
    await second.open(node.url, answer=fail_once, retry=fixed_retry(3, 0))
    await second.finish()
    assert took < 10.0, "the close waited for the alarm"
    enter(load.ledger, node.version)
