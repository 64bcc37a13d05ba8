"""The frames that are written past the driver: publish, ack, nack and get.

Each function gives whole frames, ready for the socket between two writes of the driver.
A publish is three kinds of frames in a row: the method, the content header, and the body
in as many frames as the negotiated size asks for (none where the body is empty).
"""

from __future__ import annotations

import struct
from functools import lru_cache

from acemq_amqp.core.ports import Outgoing
from acemq_amqp.errors import ConfigurationError

#: what a frame takes besides its payload: type, channel, length, end
FRAME_OVERHEAD = 8
#: a frame that says nothing but that the peer is alive
HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"

_METHOD, _HEADER, _BODY, _END = 1, 2, 3, 0xCE
_BASIC, _PUBLISH, _GET, _ACK, _NACK = 60, 40, 70, 80, 120
_MANDATORY = b"\x01"
#: class, weight and body size, before the properties
_HEADER_FIXED = 12

_FRAME_START = struct.Struct(">BHI")
_METHOD_START = struct.Struct(">HHH")
# The end of the method frame, and the start of the header frame up to the properties.
_TO_HEADER = struct.Struct(">BBHIHHQ")
# The end of one frame, and the start of a body frame.
_TO_BODY = struct.Struct(">BBHI")
_SETTLEMENT = struct.Struct(">BHIHHQBB")
_LAST = b"\xce"


def publish_frames(channel: int, outgoing: Outgoing, frame_max: int) -> bytes:
    """All the frames of one message, with the mandatory flag set.

    :param frame_max: the negotiated size of a whole frame in bytes; 0 is no limit
    :raises ConfigurationError: an exchange or routing key over 255 bytes
    """
    method = publish_method(outgoing.exchange, outgoing.routing_key)
    return b"".join(publish_pieces(channel, method, outgoing, frame_max))


def publish_pieces(
    channel: int, method: bytes, outgoing: Outgoing, frame_max: int
) -> tuple[bytes, ...]:
    """The frames of one message in pieces, so that many messages are joined only once.

    :param method: what :func:`publish_method` gave for the message's exchange and key
    """
    properties, body = outgoing.properties, outgoing.body
    size, header_size = len(body), _HEADER_FIXED + len(properties)
    start = _FRAME_START.pack(_METHOD, channel, len(method))
    header = _TO_HEADER.pack(_END, _HEADER, channel, header_size, _BASIC, 0, size)
    if not size:
        return (start, method, header, properties, _LAST)
    if not frame_max or size <= frame_max - FRAME_OVERHEAD:
        to_body = _TO_BODY.pack(_END, _BODY, channel, size)
        return (start, method, header, properties, to_body, body, _LAST)
    return (start, method, header, properties, *_split(channel, body, frame_max), _LAST)


def _split(channel: int, body: bytes, frame_max: int) -> list[bytes]:
    step = frame_max - FRAME_OVERHEAD
    pieces: list[bytes] = []
    for at in range(0, len(body), step):
        part = body[at : at + step]
        pieces += (_TO_BODY.pack(_END, _BODY, channel, len(part)), part)
    return pieces


def header_fits(outgoing: Outgoing, frame_max: int) -> bool:
    """False where the properties are larger than the one frame that they must stand in."""
    needed = _HEADER_FIXED + len(outgoing.properties) + FRAME_OVERHEAD
    return not frame_max or needed <= frame_max


@lru_cache(maxsize=1024)
def publish_method(exchange: str, routing_key: str) -> bytes:
    """The payload of a ``basic.publish`` to this target.

    :raises ConfigurationError: a name over 255 bytes, or not writable as UTF-8
    """
    return b"".join(
        (
            _METHOD_START.pack(_BASIC, _PUBLISH, 0),
            _short_text(exchange, "exchange"),
            _short_text(routing_key, "routing key"),
            _MANDATORY,
        )
    )


def ack_frame(channel: int, tag: int, multiple: bool = False) -> bytes:
    """Acknowledges one delivery, or every unsettled one up to it."""
    return _SETTLEMENT.pack(_METHOD, channel, 13, _BASIC, _ACK, tag, multiple, _END)


def nack_frame(channel: int, tag: int, multiple: bool = False, requeue: bool = True) -> bytes:
    """Gives one delivery back, or every unsettled one up to it."""
    bits = multiple | requeue << 1
    return _SETTLEMENT.pack(_METHOD, channel, 13, _BASIC, _NACK, tag, bits, _END)


def get_frame(channel: int, queue: str) -> bytes:
    """Asks for one message, which is then to be settled.

    :raises ConfigurationError: a queue name over 255 bytes
    """
    payload = _METHOD_START.pack(_BASIC, _GET, 0) + _short_text(queue, "queue") + b"\x00"
    return _FRAME_START.pack(_METHOD, channel, len(payload)) + payload + _LAST


def _short_text(text: str, what: str) -> bytes:
    try:
        name = text.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"acemq: the {what} {text!r} holds a lone surrogate, which cannot be written as UTF-8"
        ) from None
    if len(name) > 255:
        raise ConfigurationError(
            f"acemq: the {what} {text[:40]!r}... takes {len(name)} bytes and AMQP allows 255; "
            "shorten it"
        )
    return bytes((len(name),)) + name
