"""Header values come back equal, are refused with their place, and are never read with an error."""

from __future__ import annotations

import decimal
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any
from uuid import UUID

import pamqp.decode
import pamqp.encode
import pika.data
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.fieldtable import EMPTY_TABLE, HeaderTable, decode_table, encode_table

# ---------------------------------------------------------------- what comes back

_keys = st.text(st.characters(codec="utf-8"), max_size=40).filter(
    lambda key: len(key.encode()) <= 127
)
_moments = st.datetimes(
    min_value=datetime(1970, 1, 1), max_value=datetime(9999, 12, 30), timezones=st.just(UTC)
).map(lambda moment: moment.replace(microsecond=0))
_decimals = st.builds(
    lambda mantissa, scale: Decimal(f"{mantissa}E-{scale}"),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 255),
)
_plain = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"))
    | st.binary()
    | _moments
    | _decimals
)
_values = st.recursive(
    _plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)
_tables = st.dictionaries(_keys, _values, max_size=6)


def _typed(value: Any) -> Any:
    """A value with the type of all its parts: True is not 1, and 1.0 is not 1."""
    if isinstance(value, dict):
        return {key: _typed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_typed(inner) for inner in value]
    return type(value), value


@given(_tables)
def test_every_value_that_travels_comes_back_with_its_type(table: dict[str, Any]) -> None:
    assert _typed(decode_table(encode_table(table))) == _typed(table)


class _Colour(Enum):
    RED = "red"


class _Level(IntEnum):
    HIGH = 3


class _Name(StrEnum):
    BLUE = "blue"


class _Text(str):
    pass


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        pytest.param(_Colour.RED, "red", id="enum"),
        pytest.param(_Level.HIGH, 3, id="int enum"),
        pytest.param(_Name.BLUE, "blue", id="str enum"),
        pytest.param(_Text("a"), "a", id="str subclass"),
        pytest.param(UUID(int=1), "00000000-0000-0000-0000-000000000001", id="uuid"),
        pytest.param(
            datetime(2020, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            datetime(2020, 1, 1, tzinfo=UTC),
            id="moment of another zone",
        ),
        pytest.param(Decimal("1E+3"), Decimal(1000), id="decimal with an exponent"),
        pytest.param(Decimal("30.000000000"), Decimal(30), id="decimal of many zeros"),
        pytest.param(Decimal("0E-300"), Decimal(0), id="zero of 300 places"),
        pytest.param(Decimal("-1.50"), Decimal("-1.50"), id="negative decimal"),
        pytest.param([[], {}], [[], {}], id="empty containers"),
    ],
)
def test_values_are_sent_by_what_they_stand_for(sent: object, read: object) -> None:
    assert decode_table(encode_table({"a": sent})) == {"a": read}


def test_a_decimal_keeps_its_places() -> None:
    assert str(decode_table(encode_table({"a": Decimal("12.50")}))["a"]) == "12.50"


def test_a_decimal_is_read_exactly_whatever_the_context() -> None:
    with decimal.localcontext(prec=2):
        assert decode_table(encode_table({"a": Decimal("123.456")})) == {"a": Decimal("123.456")}


@pytest.mark.parametrize(
    "number", [0, 2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**63 - 1, -(2**63)]
)
def test_integers_come_back_at_the_edges_of_their_widths(number: int) -> None:
    assert decode_table(encode_table({"n": number})) == {"n": number}


# ---------------------------------------------------------------- what is refused


def _nested(depth: int) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value]
    return value


def _self_holding() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (datetime(2020, 1, 1), "naive"),
        (datetime(2020, 1, 1, 0, 0, 0, 1, tzinfo=UTC), "fractions"),
        (datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), "before 1970"),
        (datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5))), "after 9999"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (2**63, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        (Decimal("NaN"), "NaN"),
        (Decimal("sNaN"), "NaN"),
        (Decimal("-Infinity"), "Infinity"),
        (Decimal(2**31), "32 bits"),
        (Decimal("1E-256"), "255 places"),
        (Decimal("1E+999999"), "32 bits"),
        ((1, 2), "tuple"),
        ({1, 2}, "set"),
        (bytearray(b"a"), "bytearray"),
        (object(), "object"),
        (1j, "complex"),
        (timedelta(seconds=1), "datetime.timedelta"),
        ("\ud800", "surrogate"),
        (_nested(33), "deeper than 32"),
        (_self_holding(), "deeper than 32"),
        ({1: "a"}, "names are str"),
    ],
)
def test_what_would_not_come_back_is_refused_by_name(value: object, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        encode_table({"fine": 1, "culprit": value})
    assert str(caught.value).startswith("acemq: header 'culprit'")


def test_the_deepest_nesting_travels() -> None:
    assert decode_table(encode_table({"a": _nested(32)})) == {"a": _nested(32)}


def test_the_whole_path_to_a_culprit_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"argument 'a'\.'b'\[2\]\.'c' is nan"):
        encode_table({"a": {"b": [1, 2, {"c": float("nan")}]}}, "argument")


@pytest.mark.parametrize("key", ["k" * 128, "\u00e4" * 64])
def test_a_key_over_127_bytes_is_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match="128 bytes"):
        encode_table({key: 1})


@pytest.mark.parametrize("key", ["k" * 127, "\u00e4" * 63])
def test_a_key_of_127_bytes_travels(key: str) -> None:
    assert decode_table(encode_table({key: 1})) == {key: 1}


def test_a_refused_key_is_refused_again() -> None:
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="names are str"):
            encode_table({7: 1})  # type: ignore[dict-item]


# ---------------------------------------------------------------- what is read


def _entry(code: bytes, content: bytes, name: bytes = b"a") -> bytes:
    return bytes((len(name),)) + name + code + content


@pytest.mark.parametrize(
    ("code", "content", "read"),
    [
        (b"t", b"\x02", True),
        (b"b", b"\xff", -1),
        (b"B", b"\xff", 255),
        (b"s", b"\xff\xfe", -2),
        (b"U", b"\xff\xfe", -2),
        (b"u", b"\xff\xfe", 65534),
        (b"I", b"\xff\xff\xff\xfe", -2),
        (b"i", b"\xff\xff\xff\xfe", 2**32 - 2),
        (b"l", b"\xff" * 8, -1),
        (b"L", b"\xff" * 8, -1),
        (b"f", struct.pack(">f", 1.5), 1.5),
        (b"d", struct.pack(">d", 0.1), 0.1),
        (b"D", b"\x02\xff\xff\xff\xff", Decimal("-0.01")),
        (b"S", b"\x00\x00\x00\x02\xffa", "\ufffda"),
        (b"x", b"\x00\x00\x00\x02\xffa", b"\xffa"),
        (b"A", b"\x00\x00\x00\x03t\x01V", [True, None]),
        (b"T", struct.pack(">Q", 0), datetime(1970, 1, 1, tzinfo=UTC)),
        (b"T", struct.pack(">q", -1), 2**64 - 1),
        (b"T", struct.pack(">Q", 1_700_000_000_000), 1_700_000_000_000),
        (b"F", b"\x00\x00\x00\x03\x01kV", {"k": None}),
        (b"V", b"", None),
    ],
)
def test_every_type_that_a_broker_sends_is_read(code: bytes, content: bytes, read: object) -> None:
    raw = _entry(code, content) + _entry(b"t", b"\x01", b"after")
    assert _typed(decode_table(raw)) == _typed({"a": read, "after": True})


def test_at_an_unknown_type_the_table_ends_and_keeps_what_was_read() -> None:
    raw = _entry(b"t", b"\x01") + _entry(b"?", b"", b"b") + _entry(b"t", b"\x01", b"c")
    assert decode_table(raw) == {"a": True}


def test_nonsense_inside_a_nested_table_does_not_hide_its_neighbours() -> None:
    inner = _entry(b"t", b"\x01") + _entry(b"?", b"", b"b")
    raw = _entry(b"F", struct.pack(">I", len(inner)) + inner, b"n") + _entry(b"V", b"", b"z")
    assert decode_table(raw) == {"n": {"a": True}, "z": None}


def test_a_nested_value_cannot_read_past_its_table() -> None:
    inner = _entry(b"l", b"\x00")  # seven bytes short, which the next entry would supply
    raw = _entry(b"F", struct.pack(">I", len(inner)) + inner, b"n") + _entry(b"l", b"\x00" * 8)
    assert decode_table(raw) == {"n": {}, "a": 0}


@given(_tables, st.data())
def test_a_table_cut_anywhere_keeps_its_first_entries(
    table: dict[str, Any], data: st.DataObject
) -> None:
    raw = encode_table(table)
    cut = decode_table(raw[: data.draw(st.integers(0, len(raw)))])
    assert list(cut.items()) == list(table.items())[: len(cut)]


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_read_without_an_error(raw: bytes) -> None:
    decode_table(raw)
    HeaderTable(raw).edited(drop={"a"}, put={"b": 1})


@given(st.lists(st.sampled_from([b"\x01a", b"F", b"A", b"\x00\x00\x00\x09", b"S", b"D", b"T"])))
def test_bytes_that_look_like_tables_are_read_without_an_error(pieces: list[bytes]) -> None:
    decode_table(b"".join(pieces))


@pytest.mark.parametrize("code", [b"A", b"F"])
def test_nesting_without_end_is_read_without_an_error(code: bytes) -> None:
    raw = b"V"
    for _ in range(5000):
        raw = (b"" if code == b"A" else b"\x01a") + code + struct.pack(">I", len(raw)) + raw
    decode_table(raw if code == b"F" else b"\x01a" + raw)


# ---------------------------------------------------------------- what the drivers make of it


def _pika(raw: bytes) -> Any:
    return pika.data.decode_table(struct.pack(">I", len(raw)) + raw, 0)[0]


def _pamqp(raw: bytes) -> Any:
    return pamqp.decode.field_table(struct.pack(">I", len(raw)) + raw)[1]


@pytest.mark.parametrize("read", [_pika, _pamqp])
def test_the_drivers_read_what_is_written(read: Callable[[bytes], Any]) -> None:
    table = {
        "text": "\u00e4",
        "small": -7,
        "large": 2**40,
        "flag": True,
        "raw": b"\x00\xff",
        "price": Decimal("12.50"),
        "at": datetime(2024, 5, 1, tzinfo=UTC),
        "none": None,
        "list": [1, "two"],
        "dict": {"k": "v"},
    }
    assert read(encode_table(table)) == table


@pytest.mark.parametrize("write", [pamqp.encode.field_table, lambda t: _pika_bytes(t)])
def test_what_the_drivers_write_is_read(write: Callable[[dict[str, Any]], bytes]) -> None:
    table = {"a": "x", "n": 2**40, "small": 3, "f": True, "l": [1, "b"], "d": {"k": None}}
    assert decode_table(write(table)[4:]) == table


def _pika_bytes(table: dict[str, Any]) -> bytes:
    pieces: list[bytes] = []
    pika.data.encode_table(pieces, table)
    return b"".join(pieces)


# ---------------------------------------------------------------- a table that is its bytes


def test_a_table_reads_its_values_and_has_defaults() -> None:
    table = HeaderTable.of({"a": 1})
    assert table.get("a") == 1
    assert table.get("b", "none") == "none"
    assert dict(table.values()) == {"a": 1}


def test_values_cannot_be_changed_in_place() -> None:
    with pytest.raises(TypeError):
        HeaderTable.of({"a": 1}).values()["a"] = 2  # type: ignore[index]


def test_tables_are_equal_and_hash_by_their_bytes() -> None:
    one, other = HeaderTable.of({"a": 1}), HeaderTable.of({"a": 1})
    assert one == other
    assert len({one, other}) == 1
    assert one != HeaderTable.of({"a": 2})
    assert not EMPTY_TABLE
    assert one


def test_kept_entries_keep_their_very_bytes() -> None:
    odd = _entry(b"s", b"\x00\x01", b"width") + _entry(b"S", b"\x00\x00\x00\x01\xff", b"broken")
    table = HeaderTable(odd + encode_table({"old": 1, "attempt": 1}))
    edited = table.edited(drop={"old"}, put={"attempt": 2})
    assert edited.raw == odd + encode_table({"attempt": 2})


def test_an_unreadable_tail_stays_and_hides_nothing_that_is_put() -> None:
    tail = _entry(b"?", b"\x01\x02", b"strange")
    edited = HeaderTable(encode_table({"a": 1}) + tail).edited(put={"b": 2})
    assert edited.raw.endswith(tail)
    assert dict(edited.values()) == {"a": 1, "b": 2}


def test_every_entry_of_a_name_that_stands_twice_is_dropped() -> None:
    table = HeaderTable(encode_table({"a": 1}) + encode_table({"b": 2}) + encode_table({"a": 3}))
    assert table.get("a") == 3
    assert dict(table.edited(drop={"a"}).values()) == {"b": 2}


@given(_tables, st.sets(_keys), st.dictionaries(_keys, _plain, max_size=3))
def test_edits_are_those_of_a_dict(
    table: dict[str, Any], drop: set[str], put: dict[str, Any]
) -> None:
    drop |= set(list(table)[:1])
    expected = {key: value for key, value in table.items() if key not in drop} | put
    assert dict(HeaderTable.of(table).edited(drop, put).values()) == expected


@given(st.binary(max_size=200))
def test_an_edit_that_changes_nothing_keeps_every_byte(raw: bytes) -> None:
    assert HeaderTable(raw).edited().raw == raw
