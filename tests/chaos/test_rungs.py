"""Waits that the broker holds, while the broker goes and comes back.

What leaves a rung is moved by the broker itself, which makes sure of nothing: to a quorum queue,
which has no leader while the broker starts, it is lost. To a classic queue none is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from acemq_amqp import Ack, Message, fixed_retry, retry, retry_queue
from tests.chaos.conftest import Form
from tests.chaos.ledger import Ledger
from tests.chaos.load import DEADLINE, Load
from tests.contract import threads
from tests.contract.waiting import until
from tests.support.rabbitmq import RabbitMQ

Enter = Callable[[Ledger, str], None]

#: Seconds.
_WAIT = 5.0


def fails_once(message: Message) -> Ack | None:
    return retry() if message.envelope.attempt == 1 else None


async def test_waits_in_a_rung_that_end_while_the_broker_is_away(
    load: Load, form: Form, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    node, policy = own_rabbitmq, fixed_retry(2, _WAIT).wait_in_broker_from(_WAIT)
    await load.open(node.url, quorum=False, answer=fails_once, retry=policy)
    for _ in range(form.repeats):
        await load.sent(100)
        await until(lambda: waiting(load), "messages in the rung")
        await threads.run(node.stop)
        await asyncio.sleep(_WAIT)  # so that their time has come before the broker is back
        await threads.run(node.boot)
        await until(lambda: not load.ledger.outstanding, "all of them again", DEADLINE)
    await load.finish()
    enter(load.ledger, node.version)


async def waiting(load: Load) -> bool:
    return await load.mq.message_count(retry_queue(load.queue, _WAIT)) == 100
