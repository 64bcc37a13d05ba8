"""A client of the broker in memory that is driven by hand: no loop, no thread."""

from __future__ import annotations

import itertools
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from acemq_amqp.address import parse_address
from acemq_amqp.core.ports import (
    Arrival,
    LinkEvents,
    Outcome,
    Outgoing,
    Pending,
    SubscriptionEvents,
    SubscriptionRequest,
    Work,
)
from acemq_amqp.errors import BrokerError
from acemq_amqp.fieldtable import HeaderTable
from acemq_amqp.flavours.threads import ThreadClock
from acemq_amqp.properties import Properties
from acemq_amqp.topology import BindingDeclaration, ExchangeDeclaration, QueueDeclaration
from acemq_amqp.transports.memory import MemoryBroker, MemoryTransport
from acemq_amqp.transports.memory.subscription import MemorySubscription

T = TypeVar("T")
_ids = itertools.count(1)


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return cast(T, done.value)
    coroutine.close()
    raise AssertionError("a port of the broker in memory suspended")


class FakeEvent:
    """A wait for it ends at once: its flag is up, or its deadline has come."""

    def __init__(self) -> None:
        self._up = False

    def is_set(self) -> bool:
        return self._up

    def set(self) -> None:
        self._up = True

    def clear(self) -> None:
        self._up = False

    async def wait(self, deadline: float | None = None) -> bool:
        assert self._up or deadline is not None, "this would wait for ever"
        return self._up


class FakeWork:
    """The two things of a flavour that the link uses."""

    clock = ThreadClock()

    def event(self) -> FakeEvent:
        return FakeEvent()


class Consuming:
    """A subscription and what came of it."""

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self.ended: list[BrokerError] = []
        self.subscription: MemorySubscription

    @property
    def bodies(self) -> list[str]:
        return [arrival.body.decode() for arrival in self.arrivals]

    def ack(self, index: int = -1) -> bool:
        return self.subscription.ack(self.arrivals[index].tag)

    def requeue(self, index: int = -1) -> bool:
        return self.subscription.requeue(self.arrivals[index].tag)

    def reject(self, index: int = -1) -> bool:
        return self.subscription.reject(self.arrivals[index].tag)

    def close(self) -> None:
        drive(self.subscription.close(None))

    def cancel(self) -> None:
        drive(self.subscription.cancel(None))


class Client:
    """One connection."""

    def __init__(self, broker: MemoryBroker, name: str = "test") -> None:
        self.lost: list[BrokerError] = []
        self.alarms: list[str | None] = []
        events = LinkEvents(
            lost=self.lost.append,
            blocked=self.alarms.append,
            unblocked=lambda: self.alarms.append(None),
        )
        transport = MemoryTransport(cast(Work, FakeWork()))
        address = parse_address(f"memory://{broker.name}")
        self.link = drive(transport.connect(address, name=name, events=events, deadline=None))

    def exchange(self, name: str, kind: str = "topic", **options: Any) -> None:
        drive(self.link.declare(ExchangeDeclaration(name, kind, **options), None))

    def queue(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> None:
        step = QueueDeclaration(name, arguments=arguments or {}, **options)
        drive(self.link.declare(step, None))

    def bind(self, destination: str, source: str, key: str = "", **options: Any) -> None:
        drive(self.link.declare(BindingDeclaration(destination, source, key, **options), None))

    def submit(
        self,
        key: str,
        body: str | bytes = b"",
        *,
        exchange: str = "",
        headers: Mapping[str, Any] | None = None,
        **properties: Any,
    ) -> Pending:
        properties.setdefault("delivery_mode", 2)
        id_ = properties.setdefault("message_id", f"m{next(_ids)}")
        encoded = Properties(headers=HeaderTable.of(headers or {}), **properties).encode()
        data = body.encode() if isinstance(body, str) else body
        return self.link.submit(Outgoing(exchange, key, id_, encoded, data))

    def publish(self, key: str, body: str | bytes = b"", **options: Any) -> Outcome:
        return drive(self.submit(key, body, **options).outcome(0.0))

    def consume(
        self,
        queue: str,
        prefetch: int = 100,
        *,
        tag: str = "tag",
        arguments: Mapping[str, Any] | None = None,
        exclusive: bool = False,
    ) -> Consuming:
        consuming = Consuming()
        request = SubscriptionRequest(queue, tag, prefetch, arguments or {}, exclusive)
        events = SubscriptionEvents(consuming.arrivals.append, consuming.ended.append)
        consuming.subscription = drive(self.link.subscribe(request, events, None))
        return consuming

    def pull(self, queue: str) -> Arrival | None:
        return drive(self.link.pull(queue, None))

    def take(self, queue: str) -> str | None:
        """Pulls a body and acknowledges it."""
        arrival = self.pull(queue)
        if arrival is None:
            return None
        assert arrival.settling.ack(arrival.tag)
        return arrival.body.decode()

    def close(self) -> None:
        drive(self.link.close(None))


def bodies(broker: MemoryBroker, queue: str) -> list[str]:
    """What is ready, in order."""
    return [message.body.decode() for message in broker.messages(queue)]


def headers(broker: MemoryBroker, queue: str) -> dict[str, Any]:
    """The headers of the only message of a queue."""
    (message,) = broker.messages(queue)
    return dict(message.properties.headers.values())


def moment(broker: MemoryBroker) -> datetime:
    """The broker's whole second."""
    return datetime.fromtimestamp(int(broker.clock.now()), UTC)
