"""How a consumer hangs on the broker while it opens, is attached anew, and stops."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from acemq_amqp import no_retry
from acemq_amqp.codecs.json import JsonCodec
from acemq_amqp.core.attachment import Attachment, ConsumerSpec
from acemq_amqp.core.ports import QueueState, SubscriptionEvents, SubscriptionRequest
from acemq_amqp.errors import BrokerError
from acemq_amqp.flavours.tasks import TaskWork
from tests.core.arrivals import Settled, arrival


class Subscribed(Settled):
    """A subscription that tells what became of it."""

    def __init__(self, prefetch: int) -> None:
        super().__init__()
        self.prefetch = prefetch
        self.unsettled = 0
        self.delivers = True

    async def cancel(self, deadline: float | None) -> None:
        self.delivers = False

    async def close(self, deadline: float | None) -> None:
        self.live = self.delivers = False


class Broker:
    """A link on which subscribing takes as long as the test wants."""

    def __init__(self) -> None:
        self.made: list[Subscribed] = []
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.refuses = False

    async def look_up_queue(self, name: str, deadline: float | None) -> QueueState:
        return QueueState(0, 0)

    async def declare(self, step: Any, deadline: float | None) -> None:
        pass

    async def subscribe(
        self, request: SubscriptionRequest, events: SubscriptionEvents, deadline: float | None
    ) -> Subscribed:
        self.asked += 1
        await self.may_answer.wait()
        if self.refuses:
            raise BrokerError("acemq: no channel is free")
        self.made.append(Subscribed(request.prefetch))
        return self.made[-1]

    @property
    def delivering(self) -> list[int]:
        """The prefetch of each that delivers."""
        return [each.prefetch for each in self.made if each.delivers]


@pytest.fixture
def ended() -> list[BrokerError]:
    return []


@pytest.fixture
async def attachment(ended: list[BrokerError]) -> Attachment:
    spec = ConsumerSpec("orders", JsonCodec(), no_retry(), 10)
    events = SubscriptionEvents(arrived=lambda arrived: None, ended=ended.append)
    return Attachment(spec, TaskWork(), events, lambda retired: None, lambda queue: set())


def soon() -> float:
    return time.monotonic() + 10


async def asked(broker: Broker, times: int) -> None:
    while broker.asked < times:
        await asyncio.sleep(0)


async def test_what_is_stopped_while_it_opens_gets_no_more(attachment: Attachment) -> None:
    broker: Any = Broker()
    await attachment.attach(broker, soon(), again=False)
    broker.may_answer.clear()
    opening = asyncio.ensure_future(attachment.open_up(arrival()))
    await asked(broker, 2)
    await attachment.cancel(soon())
    broker.may_answer.set()
    await opening
    assert broker.delivering == []
    await attachment.end(soon())
    assert not any(each.live for each in broker.made)


async def test_what_is_stopped_while_it_is_attached_anew_gets_no_more(
    attachment: Attachment,
) -> None:
    broker: Any = Broker()
    broker.may_answer.clear()
    attaching = asyncio.ensure_future(attachment.attach(broker, soon(), again=True))
    await asked(broker, 1)
    await attachment.cancel(soon())
    broker.may_answer.set()
    await attaching
    assert not any(each.live for each in broker.made)


async def test_nothing_outlives_a_consumer_that_opened_while_it_was_attached_anew(
    attachment: Attachment,
) -> None:
    broker: Any = Broker()
    await attachment.attach(broker, soon(), again=False)
    broker.may_answer.clear()
    opening = asyncio.ensure_future(attachment.open_up(arrival()))
    attaching = asyncio.ensure_future(attachment.attach(broker, soon(), again=True))
    await asked(broker, 3)
    broker.may_answer.set()
    await asyncio.gather(opening, attaching)
    assert len(broker.made) == 3
    await attachment.cancel(soon())
    await attachment.end(soon())
    assert not any(each.live for each in broker.made)


async def test_what_cannot_open_goes_on_carefully_and_tries_again(
    attachment: Attachment, ended: list[BrokerError]
) -> None:
    broker: Any = Broker()
    await attachment.attach(broker, soon(), again=False)
    broker.refuses = True
    await attachment.open_up(arrival())
    assert (broker.delivering, attachment.live, attachment.probing) == ([1], True, True)
    broker.refuses = False
    await attachment.open_up(arrival())
    assert (broker.delivering, attachment.probing, ended) == ([10], False, [])
