"""Messages as another program may send them: any properties, any header bytes.

On RabbitMQ they go out through pika's own blocking connection, on the broker in memory
through a bare link. Neither knows anything of envelopes.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import Any

import pika

from acemq_amqp.address import parse_address
from acemq_amqp.core.ports import Confirmed, LinkEvents, Outgoing
from acemq_amqp.flavours.tasks import TaskWork
from acemq_amqp.properties import Properties
from acemq_amqp.transports.memory import MemoryTransport


class _Encoded(pika.BasicProperties):  # type: ignore[misc]
    """Properties that were encoded before."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self._raw = raw

    def encode(self) -> list[bytes]:
        return [self._raw]


def publish_with_pika(
    url: str, exchange: str, key: str, properties: Properties, body: bytes
) -> None:
    """Publishes on a connection of its own, and returns when it is stored."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish(exchange, key, body, _Encoded(properties.encode()), mandatory=True)
    finally:
        connection.close()


async def publish_in_memory(
    url: str, exchange: str, key: str, properties: Properties, body: bytes, login: str = ""
) -> None:
    """The same on the broker in memory, as ``login`` if given."""
    events = LinkEvents(lost=_ignored, blocked=_ignored, unblocked=lambda: None)
    deadline = time.monotonic() + 10.0
    address = parse_address(url)
    if login:
        address = replace(address, username=login)
    link = await MemoryTransport(TaskWork()).connect(
        address, name="foreign", events=events, deadline=deadline
    )
    outgoing = Outgoing(exchange, key, uuid.uuid4().hex, properties.encode(), body)
    outcome = await link.submit(outgoing).outcome(deadline)
    await link.close(deadline)
    assert isinstance(outcome, Confirmed) and outcome.routed, outcome


def _ignored(what: Any) -> None:
    """A link's event that nobody needs here."""
