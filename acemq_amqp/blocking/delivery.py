"""The blocking face of a pulled message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acemq_amqp.core.pulling import Delivery as CoreDelivery
from acemq_amqp.flavours.threads import drive
from acemq_amqp.message import Message


class Delivery:
    """A pulled message. Unsettled, it goes back to its queue when the connection closes."""

    def __init__(self, delivery: CoreDelivery, connection: object) -> None:
        self._core = delivery
        self._connection = connection  # not forgotten while it is in use

    def __repr__(self) -> str:
        return repr(self._core)

    @property
    def queue(self) -> str:
        """Where it was pulled from."""
        return self._core.queue

    @property
    def body(self) -> bytes:
        """The bytes as they came."""
        return self._core.body

    @property
    def headers(self) -> Mapping[str, Any]:
        """Every header, the library's included."""
        return self._core.headers

    @property
    def properties(self) -> Any:
        """The basic properties as they came."""
        return self._core.properties

    @property
    def exchange(self) -> str:
        """The exchange it came through last."""
        return self._core.exchange

    @property
    def routing_key(self) -> str:
        """The key it came with last."""
        return self._core.routing_key

    @property
    def redelivered(self) -> bool:
        """Whether it was delivered before."""
        return self._core.redelivered

    def message(self) -> Message:
        """As a handler would see it, with the body as payload."""
        return self._core.message()

    def ack(self) -> bool:
        """Takes it off the queue; False where it was settled before or its channel is gone."""
        return drive(self._core.ack())

    def requeue(self) -> bool:
        """Puts it back; False as :meth:`ack`."""
        return drive(self._core.requeue())
