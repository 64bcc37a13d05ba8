"""Arrivals built by hand."""

from __future__ import annotations

from typing import Any

from acemq_amqp.core.ports import Arrival
from acemq_amqp.envelope import Envelope
from acemq_amqp.fieldtable import HeaderTable
from acemq_amqp.properties import Properties


class Settled:
    """A channel that remembers what was settled on it."""

    live = True

    def __init__(self) -> None:
        self.acked: list[int] = []
        self.requeued: list[int] = []

    def ack(self, tag: int) -> bool:
        self.acked.append(tag)
        return True

    def requeue(self, tag: int) -> bool:
        self.requeued.append(tag)
        return True


def arrival(
    headers: dict[str, Any] | None = None,
    *,
    body: bytes = b"body",
    redelivered: bool = False,
    exchange: str = "events",
    routing_key: str = "order.placed",
    **properties: Any,
) -> Arrival:
    """A delivery with these headers and properties."""
    table = HeaderTable.of(headers or {})
    wire = Properties(headers=table, **properties)
    return Arrival(Settled(), 1, redelivered, exchange, routing_key, wire, body)


def envelope_of(arrived: Arrival) -> Envelope:
    """As a consumer reads it."""
    properties = arrived.properties
    return Envelope.from_headers(
        properties.headers.values(), arrived.routing_key, properties.message_id
    )
