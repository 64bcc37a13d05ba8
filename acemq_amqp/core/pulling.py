"""One message taken by hand: undecoded, with all its headers, settled by the caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acemq_amqp.core.ports import Arrival, Work
from acemq_amqp.message import Message


class Delivery:
    """A pulled message. Unsettled, it goes back to its queue when the connection closes."""

    def __init__(self, queue: str, arrival: Arrival, work: Work) -> None:
        self._arrival = arrival
        self._work = work
        self.queue = queue

    @property
    def arrival(self) -> Arrival:
        """What was handed over. For patterns that move it whole."""
        return self._arrival

    def __repr__(self) -> str:
        return f"Delivery(queue={self.queue!r}, {len(self.body)} bytes)"

    @property
    def body(self) -> bytes:
        """The bytes as they came."""
        return self._arrival.body

    @property
    def headers(self) -> Mapping[str, Any]:
        """Every header, the library's included."""
        return self._arrival.properties.headers.values()

    @property
    def properties(self) -> Any:
        """The basic properties as they came."""
        return self._arrival.properties

    @property
    def exchange(self) -> str:
        """The exchange it came through last."""
        return self._arrival.exchange

    @property
    def routing_key(self) -> str:
        """The key it came with last."""
        return self._arrival.routing_key

    @property
    def redelivered(self) -> bool:
        """Whether it was delivered before."""
        return self._arrival.redelivered

    def message(self) -> Message:
        """As a handler would see it, with the body as payload."""
        return Message.received(self.body, self._arrival)

    async def ack(self) -> bool:
        """Takes it off the queue; False where it was settled before or its channel is gone."""
        self._work.refuse_elsewhere()
        return self._arrival.settling.ack(self._arrival.tag)

    async def requeue(self) -> bool:
        """Puts it back; False as :meth:`ack`."""
        self._work.refuse_elsewhere()
        return self._arrival.settling.requeue(self._arrival.tag)
