"""What the tap tells: the broker's side of messaging, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from acemq_amqp.properties import Properties

_NONE = Properties()


@dataclass(slots=True)
class Delivered:
    """A message for a consumer."""

    channel: int
    consumer_tag: str
    tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    properties: Properties = _NONE
    body: bytes = b""


@dataclass(slots=True)
class Got:
    """A message that was asked for, and how many are left in the queue."""

    channel: int
    tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    message_count: int
    properties: Properties = _NONE
    body: bytes = b""


@dataclass(slots=True)
class GotNothing:
    """The queue that was asked is empty."""

    channel: int


@dataclass(slots=True)
class Returned:
    """A message that no queue wanted. Its confirm follows."""

    channel: int
    code: int
    text: str
    exchange: str
    routing_key: str
    properties: Properties = _NONE
    body: bytes = b""


@dataclass(slots=True)
class Acked:
    """The broker took responsibility for a publish, or for all up to it."""

    channel: int
    tag: int
    multiple: bool


@dataclass(slots=True)
class Nacked:
    """The broker could not take responsibility for a publish, or for all up to it."""

    channel: int
    tag: int
    multiple: bool


@dataclass(slots=True)
class ChannelClosed:
    """The broker closed a channel, because of this method. The driver is told too."""

    channel: int
    code: int
    text: str
    class_id: int
    method_id: int


@dataclass(slots=True)
class ConsumerCancelled:
    """The broker cancelled a consumer. The driver is told too."""

    channel: int
    consumer_tag: str


@dataclass(slots=True)
class Blocked:
    """The broker has paused publishing. The driver is told too."""

    reason: str


@dataclass(slots=True)
class Unblocked:
    """The broker takes messages again. The driver is told too."""


@dataclass(slots=True)
class ConnectionClosed:
    """The broker closed the connection. The driver is told too."""

    code: int
    text: str


Content: TypeAlias = Delivered | Got | Returned
WireEvent: TypeAlias = (
    Content
    | GotNothing
    | Acked
    | Nacked
    | ChannelClosed
    | ConsumerCancelled
    | Blocked
    | Unblocked
    | ConnectionClosed
)
