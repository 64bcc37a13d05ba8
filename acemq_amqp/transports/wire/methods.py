"""The methods that the tap reads, each from its payload to an event.

A payload starts with class and method id (four bytes). One that ends too early raises IndexError
or struct.error, and the tap makes that a broken wire.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

from acemq_amqp.transports.wire.events import (
    Acked,
    Blocked,
    ChannelClosed,
    ConnectionClosed,
    ConsumerCancelled,
    Content,
    Delivered,
    Got,
    GotNothing,
    Nacked,
    Returned,
    Unblocked,
    WireEvent,
)

_U16 = struct.Struct(">H").unpack_from
_U32 = struct.Struct(">I").unpack_from
_PAIR = struct.Struct(">HH").unpack_from
_TAG_AND_BITS = struct.Struct(">QB").unpack_from
_TAG_BITS_LENGTH = struct.Struct(">QBB").unpack_from


def _method(class_id: int, method_id: int) -> int:
    return class_id << 16 | method_id


def _text(payload: bytes, at: int) -> tuple[str, int]:
    stop = at + 1 + payload[at]
    return payload[at + 1 : stop].decode("utf-8", "replace"), stop


def _delivered(channel: int, payload: bytes) -> Delivered:
    # Once for every message, so written out.
    at = 5 + payload[4]
    consumer_tag = payload[5:at].decode("utf-8", "replace")
    tag, redelivered, length = _TAG_BITS_LENGTH(payload, at)
    stop = at + 10 + length
    exchange = payload[at + 10 : stop].decode("utf-8", "replace")
    key = payload[stop + 1 : stop + 1 + payload[stop]].decode("utf-8", "replace")
    return Delivered(channel, consumer_tag, tag, redelivered != 0, exchange, key)


def _got(channel: int, payload: bytes) -> Got:
    tag, redelivered = _TAG_AND_BITS(payload, 4)
    exchange, at = _text(payload, 13)
    key, at = _text(payload, at)
    return Got(channel, tag, redelivered != 0, exchange, key, _U32(payload, at)[0])


def _returned(channel: int, payload: bytes) -> Returned:
    (code,) = _U16(payload, 4)
    text, at = _text(payload, 6)
    exchange, at = _text(payload, at)
    return Returned(channel, code, text, exchange, _text(payload, at)[0])


def _got_nothing(channel: int, payload: bytes) -> GotNothing:
    return GotNothing(channel)


def _acked(channel: int, payload: bytes) -> Acked:
    tag, bits = _TAG_AND_BITS(payload, 4)
    return Acked(channel, tag, bits & 1 != 0)


def _nacked(channel: int, payload: bytes) -> Nacked:
    tag, bits = _TAG_AND_BITS(payload, 4)
    return Nacked(channel, tag, bits & 1 != 0)


def _channel_closed(channel: int, payload: bytes) -> ChannelClosed:
    (code,) = _U16(payload, 4)
    text, at = _text(payload, 6)
    return ChannelClosed(channel, code, text, *_PAIR(payload, at))


def _consumer_cancelled(channel: int, payload: bytes) -> ConsumerCancelled:
    return ConsumerCancelled(channel, _text(payload, 4)[0])


def _connection_closed(channel: int, payload: bytes) -> ConnectionClosed:
    (code,) = _U16(payload, 4)
    return ConnectionClosed(code, _text(payload, 6)[0])


def _blocked(channel: int, payload: bytes) -> Blocked:
    return Blocked(_text(payload, 4)[0])


def _unblocked(channel: int, payload: bytes) -> Unblocked:
    return Unblocked()


_Read: TypeAlias = Callable[[int, bytes], WireEvent]

#: a message follows, in a header and body frames; neither reaches the driver
CONTENT: dict[int, Callable[[int, bytes], Content]] = {
    _method(60, 60): _delivered,
    _method(60, 71): _got,
    _method(60, 50): _returned,
}
#: told, and kept from the driver
KEPT: dict[int, _Read] = {
    _method(60, 72): _got_nothing,
    _method(60, 80): _acked,
    _method(60, 120): _nacked,
}
#: told, and passed on to the driver, whose conversation needs them
TOLD: dict[int, _Read] = {
    _method(20, 40): _channel_closed,
    _method(60, 30): _consumer_cancelled,
    _method(10, 50): _connection_closed,
    _method(10, 60): _blocked,
    _method(10, 61): _unblocked,
}
#: ends of a channel, at which a message that is half there will not be finished
CHANNEL_ENDS = frozenset({_method(20, 40), _method(20, 41)})
