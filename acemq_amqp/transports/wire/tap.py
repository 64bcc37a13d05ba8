"""The tap on the byte stream between socket and driver: messages out, the rest passed on.

Inbound bytes are cut into frames. Deliveries, returns and confirms become events and never
reach the driver, so that neither driver parses a header table or pairs a return. What the
driver's conversation needs goes on to it byte for byte; closes, cancels and alarms are told as
events besides. A driver that is passed by must not think the peer dead, so once a second a chunk
that was swallowed whole leaves a heartbeat in its place.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

from acemq_amqp.errors import BrokerError
from acemq_amqp.properties import Properties
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
from acemq_amqp.transports.wire.frames import FRAME_OVERHEAD, HEARTBEAT_FRAME
from acemq_amqp.transports.wire.methods import CHANNEL_ENDS, CONTENT, KEPT, TOLD

__all__ = [
    "Acked",
    "Blocked",
    "ChannelClosed",
    "ConnectionClosed",
    "ConsumerCancelled",
    "Content",
    "Delivered",
    "Got",
    "GotNothing",
    "Nacked",
    "Returned",
    "Tap",
    "Unblocked",
    "WireError",
    "WireEvent",
]

#: until the connection is tuned; RabbitMQ's own default
FIRST_FRAME_MAX = 131_072

_METHOD, _HEADER, _BODY, _HEARTBEAT, _END = 1, 2, 3, 8, 0xCE
_FRAME_START = struct.Struct(">BHI").unpack_from
_METHOD_ID = struct.Struct(">I").unpack_from
_BODY_SIZE = struct.Struct(">Q").unpack_from
# A content header frame up to its properties, of which the fixed part of the payload is 12 bytes.
_HEADER_START = struct.Struct(">BHIIQ").unpack_from
_HEADER_FIXED = 12
#: a broker that speaks another protocol answers with a header of eight bytes instead of frames
_NO_FRAMES = ord("A")
#: and one that speaks TLS, with a record that refuses what it got
_TLS_ALERT = 0x15
_FRAME_ERROR, _UNEXPECTED_FRAME = 501, 505


class WireError(BrokerError):
    """The bytes from the broker are no AMQP frames, or not those of this connection. Close it."""


#: A driver that sees nothing of a busy stream is told that it lives, so often, in seconds.
SIGN_OF_LIFE = 1.0


class _Half:
    """A message whose frames are not all there."""

    __slots__ = ("chunks", "event", "missing")

    def __init__(self, event: Content) -> None:
        self.event = event
        #: bytes of body to come; None until the header has told
        self.missing: int | None = None
        self.chunks: list[bytes] = []


class Tap:
    """Cuts the bytes of one connection. Keeps at most one frame, and the messages half there.

    :ivar speaks_tls: the first byte is one of TLS: this is a TLS port, spoken to without
    :ivar frame_max: the negotiated size of a whole frame in bytes, to be set once tuned; 0 is no
        limit. A longer frame is refused before it is kept
    """

    __slots__ = (
        "_began",
        "_clock",
        "_foreign",
        "_halves",
        "_need",
        "_rest",
        "_told",
        "frame_max",
        "speaks_tls",
    )

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told = clock() - SIGN_OF_LIFE
        self.frame_max = FIRST_FRAME_MAX
        self.speaks_tls = False
        self._began = False
        self._foreign = False
        self._rest = bytearray()
        self._need = FRAME_OVERHEAD
        self._halves: dict[int, _Half] = {}

    def feed(self, data: bytes) -> tuple[list[WireEvent], bytes]:
        """Takes the next bytes from the socket, cut anywhere.

        :returns: the events, in order, and the bytes for the driver
        :raises WireError: what comes cannot be understood; the connection is of no more use
        """
        if not self._began and data:
            self._began, self.speaks_tls = True, data[0] == _TLS_ALERT
            self._foreign = self.speaks_tls or data[0] == _NO_FRAMES
        if self._foreign:
            return [], data
        if self._rest:
            self._rest += data
            if len(self._rest) < self._need:
                return [], b""
            data = bytes(self._rest)
            self._rest.clear()
        try:
            return self._cut(data)
        except (IndexError, struct.error) as error:
            raise WireError(
                "acemq: a frame from the broker ends too early; the connection has to be closed",
                code=_FRAME_ERROR,
            ) from error

    def _cut(self, data: bytes) -> tuple[list[WireEvent], bytes]:
        events: list[WireEvent] = []
        passed: list[bytes] = []
        limit = self.frame_max - FRAME_OVERHEAD if self.frame_max else 0xFFFF_FFFF
        at = kept = 0  # all before ``kept`` was swallowed, or stands in ``passed``
        end = len(data)
        self._need = FRAME_OVERHEAD
        while end - at >= FRAME_OVERHEAD:
            kind, channel, size = _FRAME_START(data, at)
            if size > limit or kind not in _KINDS:
                raise _broken(kind, size, limit)
            stop = at + FRAME_OVERHEAD + size
            if stop > end:
                self._need = stop - at
                break
            if data[stop - 1] != _END:
                raise _broken(kind, size, limit)
            if swallowed := self._read(kind, channel, data, at + 7, stop - 1, events):
                if kept < at:
                    passed.append(data[kept:at])
                kept = stop = swallowed
            at = stop
        self._rest += data[at:]
        if kept < at:
            passed.append(data[kept:at])
        if kept and not passed and (now := self._clock()) - self._told >= SIGN_OF_LIFE:
            self._told = now
            passed.append(HEARTBEAT_FRAME)
        return events, b"".join(passed)

    def _read(
        self, kind: int, channel: int, data: bytes, at: int, stop: int, events: list[WireEvent]
    ) -> int:
        """Reads one frame's payload, and what belongs to it.

        :returns: where the bytes end that are not for the driver; 0 where the frame is
        """
        if kind == _METHOD:
            return self._read_method(channel, data, at, stop, events)
        if kind != _HEARTBEAT:
            self._read_content(kind, channel, data, at, stop, events)
            return stop + 1
        return 0

    def _read_method(
        self, channel: int, data: bytes, at: int, stop: int, events: list[WireEvent]
    ) -> int:
        payload = data[at:stop]
        (method,) = _METHOD_ID(payload)
        if method in CHANNEL_ENDS:
            self._halves.pop(channel, None)
        elif channel in self._halves:
            raise _unexpected("a method amid content", channel)
        if method in CONTENT:
            event = CONTENT[method](channel, payload)
            if end := self._read_whole(event, data, stop + 1):
                events.append(event)
                return end
            self._halves[channel] = _Half(event)
            return stop + 1
        if method in KEPT:
            events.append(KEPT[method](channel, payload))
            return stop + 1
        if method in TOLD:
            events.append(TOLD[method](channel, payload))
        return 0

    def _read_whole(self, event: Content, data: bytes, at: int) -> int:
        """The short way for nearly every message: its header and only body frame are here.

        :returns: where they end; 0 for whatever is not just so, which then goes frame by frame
        """
        if len(data) - at < FRAME_OVERHEAD + _HEADER_FIXED:
            return 0
        kind, channel, header_size, _, size = _HEADER_START(data, at)
        body = at + FRAME_OVERHEAD + header_size
        end: int = body + FRAME_OVERHEAD + size
        if (
            kind != _HEADER
            or channel != event.channel
            or not _HEADER_FIXED <= header_size <= self.frame_max - FRAME_OVERHEAD
            or size > self.frame_max - FRAME_OVERHEAD
            or end > len(data)
            or data[body - 1] != _END
            or data[end - 1] != _END
            or _FRAME_START(data, body) != (_BODY, channel, size)
        ):
            return 0
        event.properties = Properties.decode(data[at + 7 + _HEADER_FIXED : body - 1])
        event.body = data[body + 7 : end - 1]
        return end

    def _read_content(
        self, kind: int, channel: int, data: bytes, at: int, stop: int, events: list[WireEvent]
    ) -> None:
        half = self._halves.get(channel)
        if half is None:
            raise _unexpected("content without a method before it", channel)
        if kind == _HEADER:
            if half.missing is not None:
                raise _unexpected("a second content header", channel)
            (half.missing,) = _BODY_SIZE(data[at:stop], 4)
            half.event.properties = Properties.decode(data[at + _HEADER_FIXED : stop])
        elif half.missing is None or half.missing < stop - at:
            raise _unexpected("more body than its header told", channel)
        else:
            half.missing -= stop - at
            half.chunks.append(data[at:stop])
        if half.missing == 0:
            del self._halves[channel]
            half.event.body = b"".join(half.chunks)
            events.append(half.event)


_KINDS = frozenset({_METHOD, _HEADER, _BODY, _HEARTBEAT})


def _broken(kind: int, size: int, limit: int) -> WireError:
    if kind not in _KINDS:
        what = f"of the unknown type {kind}"
    elif size > limit:
        what = f"of {size + FRAME_OVERHEAD} bytes, and {limit + FRAME_OVERHEAD} were agreed on"
    else:
        what = "without its end mark"
    return WireError(
        f"acemq: the broker sent a frame {what}; the connection has to be closed (is this the "
        "AMQP 0-9-1 port of the broker, and no proxy that changes bytes?)",
        code=_FRAME_ERROR,
    )


def _unexpected(what: str, channel: int) -> WireError:
    return WireError(
        f"acemq: the broker sent {what} on channel {channel}; the connection has to be closed",
        code=_UNEXPECTED_FRAME,
    )
