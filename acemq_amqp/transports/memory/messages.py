"""A message inside the broker, and its place in one queue.

What was published is shared by every queue that it was routed to; what a queue
does with it (its place, its expiry, how often it came back) is the queue's own.
"""

from __future__ import annotations

from dataclasses import dataclass

from acemq_amqp.properties import Properties


@dataclass(slots=True, eq=False)
class Message:
    """What was published. Never changed; a dead letter is a new one.

    :ivar routing_keys: the one it was published with, then its CC and BCC keys
    :ivar expiration: seconds, from its properties
    """

    exchange: str
    routing_keys: tuple[str, ...]
    properties: Properties
    body: bytes
    expiration: float | None = None

    @property
    def persistent(self) -> bool:
        return self.properties.delivery_mode == 2


class Entry:
    """A message's place in one queue.

    ``position`` orders it there, ``expires_at`` is a moment of the monotonic clock,
    ``returns`` counts how often a quorum queue got it back.
    """

    __slots__ = ("expires_at", "message", "position", "redelivered", "returns")

    def __init__(self, message: Message, position: int, expires_at: float | None = None) -> None:
        self.message = message
        self.position = position
        self.expires_at = expires_at
        self.redelivered = False
        self.returns = 0
