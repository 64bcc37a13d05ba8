"""What tests of the blocking transport stand on: ports driven as the blocking flavour does."""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from acemq_amqp.address import Address
from acemq_amqp.core.ports import (
    Arrival,
    LinkEvents,
    Outcome,
    Outgoing,
    SubscriptionEvents,
    SubscriptionRequest,
    Transport,
)
from acemq_amqp.errors import (
    BrokerError,
)
from acemq_amqp.fieldtable import HeaderTable
from acemq_amqp.properties import Properties
from acemq_amqp.topology import QueueDeclaration
from acemq_amqp.transports.pika import PikaTransport
from acemq_amqp.transports.pika.link import PikaLink
from acemq_amqp.transports.pika.subscription import PikaSubscription
from tests.support.eventually import eventually

T = TypeVar("T")

#: that it is one is for the type checker to say
AS_A_PORT: Transport = PikaTransport()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a port's call as the blocking flavour does: it may not suspend."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    coroutine.close()
    raise AssertionError("a blocking port suspended")


def soon(seconds: float = 20.0) -> float:
    return time.monotonic() + seconds


@dataclass
class Seen:
    """What a link reported."""

    lost: queue.Queue[BrokerError] = field(default_factory=queue.Queue)
    blocked: queue.Queue[str] = field(default_factory=queue.Queue)
    unblocked: queue.Queue[bool] = field(default_factory=queue.Queue)

    @property
    def events(self) -> LinkEvents:
        return LinkEvents(self.lost.put, self.blocked.put, lambda: self.unblocked.put(True))


@dataclass
class Inbox:
    """What a subscription reported."""

    arrivals: queue.Queue[Arrival] = field(default_factory=queue.Queue)
    ended: queue.Queue[BrokerError] = field(default_factory=queue.Queue)

    @property
    def events(self) -> SubscriptionEvents:
        return SubscriptionEvents(self.arrivals.put, self.ended.put)

    def take(self, count: int) -> list[Arrival]:
        return [self.arrivals.get(timeout=20) for _ in range(count)]


def connect(address: Address, seen: Seen | None = None, name: str = "tests") -> PikaLink:
    events = (seen or Seen()).events
    return run(PikaTransport().connect(address, name=name, events=events, deadline=soon()))


def io_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.endswith("I/O")]


def declared(link: PikaLink, name: str, **arguments: object) -> str:
    run(link.declare(QueueDeclaration(name, arguments=arguments), soon()))
    return name


def message(key: str, body: bytes = b"{}", exchange: str = "", id: str | None = None) -> Outgoing:
    id = id or uuid.uuid4().hex
    properties = Properties(message_id=id, delivery_mode=2, headers=HeaderTable.of({"n": 1.5}))
    return Outgoing(exchange, key, id, properties.encode(), body)


def publish(link: PikaLink, outgoing: Outgoing) -> Outcome:
    return run(link.submit(outgoing).outcome(soon()))


def consume(link: PikaLink, name: str, inbox: Inbox, prefetch: int = 100) -> PikaSubscription:
    request = SubscriptionRequest(name, f"ctag-{uuid.uuid4().hex[:8]}", prefetch)
    return run(link.subscribe(request, inbox.events, soon()))


def pulled(link: PikaLink, name: str) -> Arrival:
    arrival = eventually(lambda: run(link.pull(name, soon())), f"a message in {name}")
    assert arrival is not None
    return arrival


def depth(link: PikaLink, name: str) -> int:
    state = run(link.look_up_queue(name, soon()))
    assert state is not None
    return state.messages
