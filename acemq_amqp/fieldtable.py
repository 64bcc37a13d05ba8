"""The field-table codec under both drivers: headers and arguments as RabbitMQ reads them.

AMQP tables have several dialects, and the drivers each lose something of them: 64-bit
floats, bytes, long keys, dates before 1970. So tables are written and read here. Writing
refuses what would not come back equal, naming the header at fault. Reading never fails:
it takes every type a broker sends, and where the bytes make no sense the table ends.
Table bytes are the entries alone, without the four bytes of length before them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from math import isfinite
from types import MappingProxyType
from typing import Any, TypeAlias
from uuid import UUID

from acemq_amqp.errors import ConfigurationError

#: the longest key that every AMQP library takes, in bytes of UTF-8
LONGEST_KEY = 127
#: how deep lists and tables may stand in each other when written
DEEPEST = 32
#: how deep they are read; what stands deeper is read as empty
DEEPEST_READ = 64

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_SECOND = 253_402_300_799  # 9999-12-31T23:59:59Z, the last that a datetime can hold

_U32 = struct.Struct(">I")
_LONG_STRING = struct.Struct(">cI")
_INT = struct.Struct(">ci")
_LONG = struct.Struct(">cq")
_DOUBLE = struct.Struct(">cd")
_DECIMAL = struct.Struct(">cBi")
_TIMESTAMP = struct.Struct(">cQ")


# ---------------------------------------------------------------- writing


class _Unfit(Exception):
    """A value that cannot travel; each level it passes adds where it stood."""

    path = ""


def encode_table(values: Mapping[str, object], what: str = "header") -> bytes:
    """Writes a table so that every value reads back equal, by either driver's connection.

    Taken: str, bool, int of 64 bits, finite float, bytes, Decimal of 32 bits and scale 0 to
    255, aware datetime of whole seconds from 1970, None, list, dict, UUID and Enum by value.

    :param what: what an entry is called in an error: ``header`` or ``argument``
    :raises ConfigurationError: naming the entry that cannot travel, as in ``header 'a'.'b'[2]``
    """
    try:
        return _table(values, 0)
    except _Unfit as unfit:
        raise ConfigurationError(f"acemq: {what} {unfit.path.removeprefix('.')} {unfit}") from None


def _table(values: Mapping[str, object], depth: int) -> bytes:
    pieces: list[bytes] = []
    add = pieces.append
    for key, value in values.items():
        try:
            add(_key(key))
            if type(value) is str:
                text = value.encode()
                add(_LONG_STRING.pack(b"S", len(text)))
                add(text)
            else:
                add(_value(value, depth))
        except (_Unfit, UnicodeEncodeError) as error:
            raise _placed(f".{key!r}", error) from None
    return b"".join(pieces)


def _placed(place: str, error: _Unfit | UnicodeEncodeError) -> _Unfit:
    unfit = error if isinstance(error, _Unfit) else _Unfit("holds a lone surrogate; clean the text")
    unfit.path = place + unfit.path
    return unfit


@lru_cache(maxsize=1024)
def _key(key: object) -> bytes:
    if not isinstance(key, str):
        raise _Unfit(f"has a name of type {type(key).__name__}; names are str")
    name = key.encode()
    if len(name) > LONGEST_KEY:
        raise _Unfit(f"has a name of {len(name)} bytes; the limit is {LONGEST_KEY}, shorten it")
    return bytes((len(name),)) + name


def _value(value: object, depth: int) -> bytes:
    write = _WRITERS.get(type(value))
    if write is None:
        write = next((w for kind, w in _BY_KIND if isinstance(value, kind)), _unknown)
    return write(value, depth)


def _text(value: Any, depth: int) -> bytes:
    return _sized(b"S", value.encode())


def _int(value: Any, depth: int) -> bytes:
    if -0x8000_0000 <= value <= 0x7FFF_FFFF:
        return _INT.pack(b"I", value)
    try:
        return _LONG.pack(b"l", value)
    except struct.error:
        raise _Unfit("is an int beyond 64 bits; send it as text") from None


def _float(value: Any, depth: int) -> bytes:
    if not isfinite(value):
        raise _Unfit(f"is {value}; only finite floats can travel")
    return _DOUBLE.pack(b"d", value)


def _decimal(value: Any, depth: int) -> bytes:
    if not value.is_finite():
        raise _Unfit(f"is {value}; only finite decimals can travel")
    negative, digits, exponent = value.as_tuple()
    if len(digits) > 9 or exponent < -255:
        while len(digits) > 1 and digits[-1] == 0 and exponent < 0:
            digits, exponent = digits[:-1], exponent + 1
    if not any(digits):
        return _DECIMAL.pack(b"D", 0, 0)
    if exponent >= -255 and len(digits) + max(exponent, 0) <= 10:
        mantissa = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
        if mantissa - negative <= 0x7FFF_FFFF:
            return _DECIMAL.pack(b"D", max(-exponent, 0), -mantissa if negative else mantissa)
    raise _Unfit("is a Decimal beyond 32 bits or 255 places; send it as text")


def _datetime(value: Any, depth: int) -> bytes:
    if value.utcoffset() is None:
        raise _Unfit("is a naive datetime; give it a time zone")
    since = value - _EPOCH
    if since.microseconds:
        raise _Unfit("is a datetime with fractions of a second; round it or send it as text")
    seconds = since.days * 86_400 + since.seconds
    if not 0 <= seconds <= _LAST_SECOND:
        raise _Unfit("is a datetime before 1970 or after 9999 in UTC; send it as text")
    return _TIMESTAMP.pack(b"T", seconds)


def _list(value: Any, depth: int) -> bytes:
    pieces: list[bytes] = []
    for index, item in enumerate(value):
        try:
            pieces.append(_value(item, _deeper(depth)))
        except (_Unfit, UnicodeEncodeError) as error:
            raise _placed(f"[{index}]", error) from None
    return _sized(b"A", b"".join(pieces))


def _deeper(depth: int) -> int:
    if depth >= DEEPEST:
        raise _Unfit(f"nests deeper than {DEEPEST} levels; send it in the body")
    return depth + 1


def _sized(code: bytes, content: bytes) -> bytes:
    return _LONG_STRING.pack(code, len(content)) + content


def _unknown(value: Any, depth: int) -> bytes:
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    raise _Unfit(f"is of type {kind}, which cannot travel; convert it, or send it in the body")


_Writer: TypeAlias = Callable[[Any, int], bytes]

#: in the order in which a subclass is looked for: an Enum may be a str, a bool is an int
_BY_KIND: tuple[tuple[type, _Writer], ...] = (
    (Enum, lambda value, depth: _value(value.value, _deeper(depth))),
    (str, _text),
    (bool, lambda value, _: b"t\x01" if value else b"t\x00"),
    (int, _int),
    (float, _float),
    (bytes, lambda value, _: _sized(b"x", value)),
    (datetime, _datetime),
    (Decimal, _decimal),
    (UUID, lambda value, depth: _text(str(value), depth)),
    (list, _list),
    (dict, lambda value, depth: _sized(b"F", _table(value, _deeper(depth)))),
    (type(None), lambda value, _: b"V"),
)
_WRITERS: dict[type, _Writer] = dict(_BY_KIND)


# ---------------------------------------------------------------- reading

_Reader: TypeAlias = Callable[[bytes, int, int, int], tuple[Any, int]]
_TEXT = ord("S")

#: what reading past the end, or an unknown type, raises inside; none of it leaves this module
_ENDS = (IndexError, KeyError, struct.error)


def decode_table(raw: bytes) -> dict[str, Any]:
    """Reads a table, whatever the bytes are. Never raises.

    Text that is not UTF-8 is read with replacement, a moment that no datetime can hold as its
    int of seconds. At bytes that make no sense the table ends, and what was read is kept.
    A name that stands twice has its last value.
    """
    return _read_table(raw, 0, len(raw), 0)


def _read_table(raw: bytes, at: int, end: int, depth: int) -> dict[str, Any]:
    table: dict[str, Any] = {}
    try:
        while at < end:
            start = at + 1
            at = start + raw[at]
            code, name = raw[at], raw[start:at].decode("utf-8", "replace")
            if code == _TEXT:  # nearly every header; read here, without a call
                start = at + 5
                at = start + _U32.unpack_from(raw, at + 1)[0]
                value: Any = raw[start:at].decode("utf-8", "replace")
            else:
                value, at = _READERS[code](raw, at + 1, end, depth)
            if at > end:
                break
            table[name] = value
    except _ENDS:
        pass
    return table


def _spans(raw: bytes) -> list[tuple[str, int, int]]:
    """The name of every readable entry, and where its bytes start and end."""
    found: list[tuple[str, int, int]] = []
    at, end = 0, len(raw)
    try:
        while at < end:
            start = at
            at += raw[at] + 1
            name = raw[start + 1 : at].decode("utf-8", "replace")
            at = _READERS[raw[at]](raw, at + 1, end, 0)[1]
            if at > end:
                break
            found.append((name, start, at))
    except _ENDS:
        pass
    return found


def _read_text(raw: bytes, at: int, end: int, depth: int) -> tuple[str, int]:
    start = at + 4
    stop = start + _U32.unpack_from(raw, at)[0]
    return raw[start:stop].decode("utf-8", "replace"), stop


def _read_bytes(raw: bytes, at: int, end: int, depth: int) -> tuple[bytes, int]:
    start = at + 4
    stop = start + _U32.unpack_from(raw, at)[0]
    return raw[start:stop], stop


def _read_decimal(raw: bytes, at: int, end: int, depth: int) -> tuple[Decimal, int]:
    # As text: arithmetic would round to the caller's decimal context.
    mantissa = int.from_bytes(raw[at + 1 : at + 5], "big", signed=True)
    return Decimal(f"{mantissa}E-{raw[at]}"), at + 5


def _read_timestamp(raw: bytes, at: int, end: int, depth: int) -> tuple[datetime | int, int]:
    seconds = int.from_bytes(raw[at : at + 8], "big")
    return (seconds if seconds > _LAST_SECOND else _EPOCH + timedelta(seconds=seconds)), at + 8


def _read_list(raw: bytes, at: int, end: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    at, stop = at + 4, at + 4 + _U32.unpack_from(raw, at)[0]
    inner = min(stop, end) if depth < DEEPEST_READ else at
    try:
        while at < inner:
            value, at = _READERS[raw[at]](raw, at + 1, inner, depth + 1)
            if at > inner:
                break
            items.append(value)
    except _ENDS:
        pass
    return items, stop


def _read_dict(raw: bytes, at: int, end: int, depth: int) -> tuple[dict[str, Any], int]:
    start = at + 4
    stop = start + _U32.unpack_from(raw, at)[0]
    if depth >= DEEPEST_READ:
        return {}, stop
    return _read_table(raw, start, min(stop, end), depth + 1), stop


def _fixed(code: str) -> _Reader:
    number = struct.Struct(f">{code}")
    unpack, size = number.unpack_from, number.size

    def read(raw: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
        return unpack(raw, at)[0], at + size

    return read


_READERS: dict[int, _Reader] = {
    _TEXT: _read_text,
    ord("I"): _fixed("i"),
    ord("l"): _fixed("q"),
    ord("L"): _fixed("q"),  # the specification's unsigned; RabbitMQ and the drivers read it signed
    ord("t"): lambda raw, at, end, depth: (raw[at] != 0, at + 1),
    ord("b"): _fixed("b"),
    ord("B"): _fixed("B"),
    ord("s"): _fixed("h"),
    ord("U"): _fixed("h"),  # the specification's code for what RabbitMQ spells 's'
    ord("u"): _fixed("H"),
    ord("i"): _fixed("I"),
    ord("f"): _fixed("f"),
    ord("d"): _fixed("d"),
    ord("D"): _read_decimal,
    ord("x"): _read_bytes,
    ord("T"): _read_timestamp,
    ord("A"): _read_list,
    ord("F"): _read_dict,
    ord("V"): lambda raw, at, end, depth: (None, at),
}


# ---------------------------------------------------------------- the bytes, kept


class HeaderTable:
    """A table that is its bytes: what came is passed on as it came, and read only when asked for.

    Immutable. Equal where the bytes are.
    """

    __slots__ = ("_values", "raw")

    def __init__(self, raw: bytes = b"") -> None:
        self.raw = raw
        self._values: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, values: Mapping[str, object]) -> HeaderTable:
        """A table of these values.

        :raises ConfigurationError: see :func:`encode_table`
        """
        return cls(encode_table(values))

    def values(self) -> Mapping[str, Any]:
        """All that can be read, decoded once."""
        if self._values is None:
            self._values = MappingProxyType(decode_table(self.raw))
        return self._values

    def get(self, name: str, default: Any = None) -> Any:
        """One value, or the default where there is none."""
        return self.values().get(name, default)

    def edited(
        self, drop: Container[str] = (), put: Mapping[str, object] = MappingProxyType({})
    ) -> HeaderTable:
        """A table with some entries taken out and others put in.

        Every other entry keeps its very bytes, and so does a tail that could not be read.

        :raises ConfigurationError: see :func:`encode_table`
        """
        raw = self.raw
        spans = _spans(raw)
        tail = raw[spans[-1][2] :] if spans else raw
        kept = [raw[a:b] for name, a, b in spans if name not in drop and name not in put]
        return HeaderTable(b"".join((*kept, encode_table(put), tail)))

    def __bool__(self) -> bool:
        return bool(self.raw)

    def __eq__(self, other: object) -> bool:
        return self.raw == other.raw if isinstance(other, HeaderTable) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"HeaderTable({dict(self.values())!r})"


EMPTY_TABLE = HeaderTable()
