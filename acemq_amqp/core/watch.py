"""Who is told what becomes of a consumer: the keeper, which brings it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from acemq_amqp.core.ports import Arrival, Subscription
from acemq_amqp.errors import BrokerError

if TYPE_CHECKING:
    from acemq_amqp.core.consumer import Consumer


class ConsumerWatch(Protocol):
    """Who is told of a consumer's ends. Both calls only enqueue."""

    def ended(self, consumer: Consumer, error: BrokerError) -> None:
        """The broker ended its subscription."""

    def closed(self, consumer: Consumer) -> None:
        """It has stopped for good."""

    def handled_elsewhere(self, consumer: Consumer, arrival: Arrival) -> bool:
        """Whether an earlier delivery of the same message still runs in this connection."""

    def in_flight(self, queue: str) -> int:
        """Handlers that run for a queue, over all consumers of this connection."""

    def retired(self, subscription: Subscription) -> None:
        """Another has taken its place; to be closed once its deliveries are settled."""

    def detached(self, consumer: Consumer) -> None:
        """It wants to be attached anew."""
