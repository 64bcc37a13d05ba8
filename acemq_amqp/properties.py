"""The basic properties of a message: one value, and the bytes it has in a content header.

Both directions run for every message, so the layout is a table worked out once: which
flag stands for which field, and how each field is written. Headers stay bytes until
somebody reads them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.fieldtable import EMPTY_TABLE, HeaderTable

#: the longest text of a property, in bytes of UTF-8
LONGEST_TEXT = 255

_FLAGS = struct.Struct(">H")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")


class Properties(NamedTuple):
    """What AMQP says of a message besides its body. None is a property that is not there."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: HeaderTable = EMPTY_TABLE
    #: 2 is persistent, 1 is not
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    #: text of whole milliseconds
    expiration: str | None = None
    message_id: str | None = None
    #: seconds since the epoch
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None

    def encode(self) -> bytes:
        """The property flags and fields, as they follow the body size in a content header.

        :raises ConfigurationError: naming the property that cannot be written
        """
        flags, flag, pieces = 0, 0x8000, [b""]
        for field, value in enumerate(self):
            if value is not None and value is not EMPTY_TABLE:
                flags |= flag
                pieces.append(_written(field, value))
            flag >>= 1
        pieces[0] = _FLAGS.pack(flags)
        return b"".join(pieces)

    @staticmethod
    def decode(raw: bytes) -> Properties:
        """Reads what :meth:`encode` writes, and whatever else comes. Never raises.

        Text that is not UTF-8 is read with replacement; where the bytes end, so do the properties.
        """
        values = list(_ABSENT)
        try:
            (flags,) = _FLAGS.unpack_from(raw, 0)
            at = 2
            more = flags
            while more & 1:  # the specification allows for further flag words; none has a meaning
                (more,) = _FLAGS.unpack_from(raw, at)
                at += 2
            end = len(raw)
            for field, read in _plan(flags):
                value, at = read(raw, at)
                if at > end:
                    break
                values[field] = value
        except (IndexError, struct.error):
            pass
        return Properties._make(values)


_ABSENT: tuple[Any, ...] = tuple(Properties())
_HEADERS = Properties._fields.index("headers")
_OCTETS = frozenset(map(Properties._fields.index, ("delivery_mode", "priority")))
_TIMESTAMP = Properties._fields.index("timestamp")


def _written(field: int, value: Any) -> bytes:
    try:
        if field == _HEADERS:
            raw: bytes = value.raw
            return _U32.pack(len(raw)) + raw
        if field in _OCTETS:
            return bytes((value,))
        return _U64.pack(value) if field == _TIMESTAMP else _short_text(value)
    except (ValueError, TypeError, AttributeError, struct.error) as error:
        raise ConfigurationError(
            f"acemq: property {Properties._fields[field]!r} cannot be written: {error}"
        ) from None


def _short_text(value: str) -> bytes:
    text = value.encode()
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"it takes {len(text)} bytes of UTF-8 and the limit is {LONGEST_TEXT}")
    return bytes((len(text),)) + text


_Reader = Callable[[bytes, int], tuple[Any, int]]


def _read_text(raw: bytes, at: int) -> tuple[str, int]:
    stop = at + 1 + raw[at]
    return raw[at + 1 : stop].decode("utf-8", "replace"), stop


def _read_octet(raw: bytes, at: int) -> tuple[int, int]:
    return raw[at], at + 1


def _read_timestamp(raw: bytes, at: int) -> tuple[int, int]:
    return _U64.unpack_from(raw, at)[0], at + 8


def _read_headers(raw: bytes, at: int) -> tuple[HeaderTable, int]:
    start = at + 4
    stop = start + _U32.unpack_from(raw, at)[0]
    return HeaderTable(raw[start:stop]), stop


def _reader(field: int) -> _Reader:
    if field == _HEADERS:
        return _read_headers
    if field in _OCTETS:
        return _read_octet
    return _read_timestamp if field == _TIMESTAMP else _read_text


@lru_cache(maxsize=512)
def _plan(flags: int) -> tuple[tuple[int, _Reader], ...]:
    """The fields that these flags announce, each with its reader."""
    return tuple((f, _reader(f)) for f in range(len(_ABSENT)) if flags & (0x8000 >> f))
