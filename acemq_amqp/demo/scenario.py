"""What is played: three hundred orders, who of them makes trouble, and where they travel.

Both flavours play the same orders on stages of their own. An order's number decides its
fate, so that what must come out can be told beforehand.
"""

from __future__ import annotations

import secrets
import sys
from dataclasses import dataclass, field
from typing import Any, Final

from acemq_amqp.ack import Ack, accept, reject
from acemq_amqp.errors import BrokerError
from acemq_amqp.message import Message
from acemq_amqp.metrics import Metrics
from acemq_amqp.naming import dead_letter_queue, parked_queue, retry_queue
from acemq_amqp.retry import RetryPolicy
from acemq_amqp.topology import Topology

#: Three attempts: the first wait is held by the consumer, the second by the broker.
POLICY: Final = RetryPolicy(3, 0.2, multiplier=5).wait_in_broker_from(1.0)
#: At most half of it may wait at once: more than the orders that fail the first time.
PREFETCH: Final = 50
CONCURRENCY: Final = 4
#: How long the demo waits for its orders, in seconds, before it counts what there is.
PATIENCE: Final = 20.0
LOOK_AGAIN: Final = 0.05

STRAIGHT: Final = range(1, 201)
BY_EXCHANGE: Final = range(201, 301)
#: An order that was cut off on its way: it is not JSON.
GARBLED: Final = b'{"order": 301, "total": '

FAILS_ONCE: Final = frozenset(range(5, 301, 20))
FAILS_TWICE: Final = frozenset(range(50, 301, 50))
ALWAYS_FAILS: Final = frozenset({42, 242})
NO_ADDRESS: Final = frozenset({113})


class BankSilent(Exception):
    """What the handler runs into."""


def order(number: int) -> dict[str, Any]:
    """An order as it is published."""
    return {"order": number, "total": 10 + number % 7}


def failures_of(number: int) -> int:
    """How often the bank leaves an order without an answer."""
    if number in ALWAYS_FAILS:
        return POLICY.max_attempts
    return 2 if number in FAILS_TWICE else 1 if number in FAILS_ONCE else 0


@dataclass(frozen=True, slots=True)
class Stage:
    """The names of one play on the broker: nobody else's, and gone after it."""

    name: str = field(default_factory=lambda: f"acemq-demo.{secrets.token_hex(4)}")

    @property
    def orders(self) -> str:
        return f"{self.name}.orders"

    @property
    def exchange(self) -> str:
        return f"{self.name}.events"

    @property
    def queues(self) -> tuple[str, ...]:
        """Everything to be deleted. The exchange goes by itself with the last queue bound to it."""
        rungs = (retry_queue(self.orders, wait) for wait in POLICY.schedule())
        ends = (dead_letter_queue(self.orders), parked_queue(self.orders))
        return (self.orders, *rungs, *ends)

    def topology(self) -> Topology:
        return (
            Topology()
            .exchange(self.exchange, "topic", auto_delete=True)
            .queue(self.orders, dead_letter=True, retry=POLICY)
            .binding(self.orders, self.exchange, "order.*.placed")
        )


def left_behind(names: str, failure: BrokerError) -> None:
    """Says that a stage could not be cleared."""
    print(f"acemq: queues such as {names} may be left behind: {failure}", file=sys.stderr)


class Desk:
    """Where orders are handled, in both flavours; it keeps count.

    Any thread may hand it an order.
    """

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.confirmed = self.unrouted = 0
        self.calls: list[int] = []
        self.handled: list[int] = []

    def answer(self, message: Message) -> Ack:
        """Handles an order, or fails as its number has it."""
        number = message.payload["order"]
        self.calls.append(number)
        if number in NO_ADDRESS:
            return reject(f"order {number} has no address")
        if message.envelope.attempt <= failures_of(number):
            raise BankSilent(f"no answer from the bank for order {number}")
        self.handled.append(number)
        return accept()
