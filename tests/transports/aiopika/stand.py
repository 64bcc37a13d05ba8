"""What tests of the async link stand on: links that must leave nothing, and consumers to await."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from acemq_amqp.address import parse_address
from acemq_amqp.core.ports import (
    Arrival,
    LinkEvents,
    Outcome,
    Outgoing,
    SubscriptionEvents,
    SubscriptionRequest,
)
from acemq_amqp.errors import (
    BrokerError,
)
from acemq_amqp.properties import Properties
from acemq_amqp.topology import QueueDeclaration
from acemq_amqp.transports.aiopika import AioPikaTransport
from acemq_amqp.transports.aiopika.link import AioPikaLink
from acemq_amqp.transports.aiopika.subscription import ChannelSubscription
from tests.support.eventually import eventually
from tests.support.rabbitmq import RabbitMQ


def soon(seconds: float = 30.0) -> float:
    return time.monotonic() + seconds


class Told:
    """What a link said to its owner."""

    def __init__(self) -> None:
        self.losses: list[BrokerError] = []
        self.lost = asyncio.Event()
        self.blocked: asyncio.Queue[str] = asyncio.Queue()
        self.unblocked = asyncio.Event()

    def events(self) -> LinkEvents:
        return LinkEvents(
            lost=self._lost, blocked=self.blocked.put_nowait, unblocked=self.unblocked.set
        )

    def _lost(self, why: BrokerError) -> None:
        self.losses.append(why)
        self.lost.set()


@asynccontextmanager
async def quiet() -> AsyncIterator[None]:
    """Fails where anything was left: a task, or an error that nobody retrieved."""
    loop = asyncio.get_running_loop()
    complaints: list[dict[str, Any]] = []
    before = asyncio.all_tasks()
    loop.set_exception_handler(lambda _loop, context: complaints.append(context))
    try:
        yield
        for _ in range(10):
            await asyncio.sleep(0)
        left = asyncio.all_tasks() - before
        gc.collect()
        await asyncio.sleep(0)
        gc.collect()
        assert not left
        assert not complaints
    finally:
        loop.set_exception_handler(None)


async def connected(url: str, told: Told) -> AioPikaLink:
    return await AioPikaTransport().connect(
        parse_address(url), name="test", events=told.events(), deadline=soon()
    )


@asynccontextmanager
async def linked(url: str, told: Told | None = None) -> AsyncIterator[AioPikaLink]:
    told = told or Told()
    async with quiet():
        link = await connected(url, told)
        try:
            yield link
        finally:
            await link.close(soon(5.0))
        del link


def queue(name: str, **arguments: Any) -> QueueDeclaration:
    return QueueDeclaration(
        name, durable=True, auto_delete=False, exclusive=False, arguments=arguments
    )


def message(
    key: str = "q", body: bytes = b"hello", exchange: str = "", message_id: str = "m"
) -> Outgoing:
    properties = Properties(message_id=message_id, delivery_mode=2).encode()
    return Outgoing(exchange, key, message_id, properties, body)


async def publish(link: AioPikaLink, *messages: Outgoing) -> list[Outcome]:
    pending = [link.submit(one) for one in messages]
    return [await one.outcome(soon()) for one in pending]


class Consumer:
    """A subscription whose deliveries and end can be awaited."""

    def __init__(self, subscription: ChannelSubscription | None = None) -> None:
        self.arrivals: asyncio.Queue[Arrival] = asyncio.Queue()
        self.ends: asyncio.Queue[BrokerError] = asyncio.Queue()
        self.subscription: ChannelSubscription

    @classmethod
    async def start(
        cls, link: AioPikaLink, name: str = "q", prefetch: int = 10, **options: Any
    ) -> Consumer:
        self = cls()
        request = SubscriptionRequest(name, options.pop("tag", ""), prefetch, **options)
        events = SubscriptionEvents(self.arrivals.put_nowait, self.ends.put_nowait)
        self.subscription = await link.subscribe(request, events, soon())
        return self

    async def take(self, count: int = 1) -> list[Arrival]:
        async with asyncio.timeout(30):
            return [await self.arrivals.get() for _ in range(count)]

    async def end(self) -> BrokerError:
        async with asyncio.timeout(30):
            return await self.ends.get()


async def comes(question: Callable[[], object], what: str) -> None:
    """Waits for what the broker does in its own time; the loop goes on meanwhile."""
    await asyncio.to_thread(eventually, question, what)


def channels(broker: RabbitMQ) -> int:
    """How many channels the only connection has."""
    (only,) = broker.list_connections("channels")
    return int(only["channels"])
