"""What a broker writes, made by an independent codec (pamqp), for the tests of the wire."""

from __future__ import annotations

from typing import Any

import pamqp.body
import pamqp.commands
import pamqp.frame
import pamqp.header

from acemq_amqp.core.ports import Outgoing
from acemq_amqp.properties import Properties


def method(channel: int, frame: Any) -> bytes:
    """One method frame."""
    return pamqp.frame.marshal(frame, channel)


def content(channel: int, body: bytes = b"", *, cut: int = 4088, **properties: Any) -> bytes:
    """The content header of a body, and the body in frames of at most ``cut`` bytes."""
    basic = pamqp.commands.Basic.Properties(**properties)
    frames: list[Any] = [pamqp.header.ContentHeader(0, len(body), basic)]
    frames += [pamqp.body.ContentBody(body[at : at + cut]) for at in range(0, len(body), cut)]
    return b"".join(pamqp.frame.marshal(frame, channel) for frame in frames)


def deliver(
    channel: int, tag: int, body: bytes = b"", *, cut: int = 4088, **properties: Any
) -> bytes:
    """A delivery to the consumer ``c`` by way of ``ex`` and ``key``."""
    sent = pamqp.commands.Basic.Deliver("c", tag, False, "ex", "key")
    return method(channel, sent) + content(channel, body, cut=cut, **properties)


def frames_of(raw: bytes) -> list[tuple[int, Any]]:
    """Channel and frame of everything in these bytes, which must be whole."""
    found = []
    while raw:
        size, channel, frame = pamqp.frame.unmarshal(raw)
        found.append((channel, frame))
        raw = raw[size:]
    return found


def outgoing(
    message_id: str = "m", *, exchange: str = "ex", key: str = "key", body: bytes = b"body"
) -> Outgoing:
    """A message ready for the wire."""
    properties = Properties(message_id=message_id).encode()
    return Outgoing(exchange, key, message_id, properties, body)


def publishes(raw: bytes) -> list[tuple[int, str]]:
    """Channel and message id of every publish in these bytes."""
    return [
        (channel, frame.properties.message_id or "")
        for channel, frame in frames_of(raw)
        if isinstance(frame, pamqp.header.ContentHeader)
    ]
