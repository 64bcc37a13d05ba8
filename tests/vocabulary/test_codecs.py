"""The formats that need nothing else: what they write, claim, read and refuse."""

from __future__ import annotations

from collections import namedtuple
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acemq_amqp.codec import BytesCodec, Codec, CompositeCodec, JsonCodec, TextCodec
from acemq_amqp.errors import ConfigurationError, DecodeError, EncodeError, FatalError, StoreError

JSON, TEXT, BYTES = JsonCodec(), TextCodec(), BytesCodec()


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Order:
    number: int
    lines: list[Line] = field(default_factory=list)


Point = namedtuple("Point", "x y")


class Hostile(dict[str, int]):
    """A payload whose own code breaks."""

    def items(self) -> Any:
        raise RuntimeError("no")


# ---------------------------------------------------------------- content types


@pytest.mark.parametrize(
    ("codec", "content_type"),
    [
        (JSON, "application/json"),
        (TEXT, "text/plain; charset=utf-8"),
        (BYTES, "application/octet-stream"),
        (CompositeCodec(TEXT, JSON), "text/plain; charset=utf-8"),
    ],
)
def test_what_they_write(codec: Codec, content_type: str) -> None:
    assert codec.content_type == content_type


@pytest.mark.parametrize(
    ("content_type", "json", "text"),
    [
        ("application/json", True, False),
        ("Application/JSON; charset=utf-8", True, False),
        ("text/json", True, True),
        ("application/vnd.acme+json", True, False),
        ("application/vnd.acme+JSON;v=1", True, False),
        ("text/plain", False, True),
        ("TEXT/html", False, True),
        ("application/octet-stream", False, False),
        ("application/x-json", False, False),
        ("plain/text", False, False),
        (None, True, False),
        ("", True, False),
    ],
)
def test_what_they_claim(content_type: str | None, json: bool, text: bool) -> None:
    assert JSON.can_decode(content_type) is json
    assert TEXT.can_decode(content_type) is text
    assert BYTES.can_decode(content_type) is True


# ---------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    ("payload", "body"),
    [
        *((None, b"null"), (True, b"true"), (1, b"1"), (1.5, b"1.5"), ("é", '"é"'.encode())),
        *(({"a": [1, 2]}, b'{"a":[1,2]}'), ((1, 2), b"[1,2]"), (Point(1, 2), b"[1,2]")),
        (Order(7, [Line("a"), Line("b", 2)]), None),
        (UUID(int=5), b'"00000000-0000-0000-0000-000000000005"'),
        *((Colour.RED, b'"red"'), (Level.HIGH, b"3"), ({"c": Colour.RED}, b'{"c":"red"}')),
    ],
)
def test_json_is_written_compactly(payload: Any, body: bytes | None) -> None:
    order = b'{"number":7,"lines":[{"sku":"a","count":1},{"sku":"b","count":2}]}'
    assert JSON.encode(payload) == (order if body is None else body)


def circular() -> list[Any]:
    inside: list[Any] = []
    inside.append(inside)
    return inside


def deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


@pytest.mark.parametrize(
    "payload",
    [
        *(float("nan"), float("inf"), [float("-inf")], {"a": float("nan")}, {float("nan"): 1}),
        *(datetime.now(UTC), Decimal("1.5"), {1, 2}, b"bytes", object(), Line, 1j),
        *({(1, 2): 3}, {UUID(int=5): 1}, "\ud800", circular(), 10**5000, Hostile(a=1)),
    ],
    ids=lambda payload: type(payload).__name__,
)
def test_json_refuses_what_it_cannot_say(payload: Any) -> None:
    with pytest.raises(EncodeError, match=r"^acemq: "):
        JSON.encode(payload)


def test_json_refuses_what_is_nested_too_deep() -> None:
    with pytest.raises(EncodeError):
        JSON.encode(deep())
    with pytest.raises(DecodeError):
        JSON.decode(b"[" * 100_000 + b"]" * 100_000)


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"",
            b"{",
            b"nope",
            b"NaN",
            b"[Infinity]",
            b"-Infinity",
            b'{"a":NaN}',
            b"1e999",
            b"-1e999",
        ),
        *(b"\xff\xfe\xfa", b'"\xff"', b"{} {}", b"9" * 5000, b"'a'"),
    ],
)
def test_json_refuses_what_is_not_json(body: bytes) -> None:
    with pytest.raises(DecodeError, match=r"^acemq: .*not JSON"):
        JSON.decode(body)


def test_json_reads_what_buffers_hold() -> None:
    assert JSON.decode(memoryview(b"[1]")) == [1]  # type: ignore[arg-type]
    assert JSON.decode(b"\xef\xbb\xbf[1]", "application/json") == [1]


LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text()
PLAIN: st.SearchStrategy[Any] = st.recursive(
    LEAVES | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(PLAIN)
def test_json_reads_back_what_it_wrote(payload: Any) -> None:
    assert JSON.decode(JSON.encode(payload)) == payload


@given(st.binary())
def test_a_body_is_decoded_or_refused_and_nothing_else(body: bytes) -> None:
    readers: list[tuple[Codec, str | None]] = [
        (JSON, None),
        (TEXT, "text/plain"),
        (TEXT, "text/x;charset=utf-16"),
    ]
    for codec, content_type in readers:
        with suppress(DecodeError):
            codec.decode(body, content_type)


# ---------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (None, "é".encode()),
        ("text/plain", "é".encode()),
        ("text/plain; charset=utf-8", "é".encode()),
        ("text/plain; charset=ISO-8859-1", b"\xe9"),
        ('text/plain; format=flowed; Charset="latin1"', b"\xe9"),
        ("text/html;charset=utf-16-le", b"\xe9\x00"),
    ],
)
def test_text_is_read_in_its_charset(content_type: str | None, body: bytes) -> None:
    assert TEXT.decode(body, content_type) == "é"


@pytest.mark.parametrize(
    "charset",
    [
        *("klingon", "hex", "zlib", "rot13", "punycode", "idna", "unicode_escape"),
        *("raw-unicode-escape", "undefined", "a\0b", "../../etc", "aliases", "é", "x" * 300),
    ],
)
def test_what_is_no_charset_is_refused(charset: str) -> None:
    with pytest.raises(DecodeError, match=r"^acemq: "):
        TEXT.decode(b"abc", f"text/plain; charset={charset}")


def test_text_that_is_not_in_its_charset_is_refused() -> None:
    with pytest.raises(DecodeError, match="utf-8"):
        TEXT.decode(b"\xff")


@pytest.mark.parametrize("payload", [None, 5, b"bytes", ["a"], "\ud800"])
def test_only_text_is_written_as_text(payload: Any) -> None:
    with pytest.raises(EncodeError, match=r"^acemq: "):
        TEXT.encode(payload)


@given(st.text())
def test_text_reads_back_what_it_wrote(payload: str) -> None:
    assert TEXT.decode(TEXT.encode(payload), TEXT.content_type) == payload


@given(st.text())
def test_no_content_type_breaks_the_reader(content_type: str) -> None:
    with suppress(DecodeError):
        TEXT.decode(b"abc", "text/plain; charset=" + content_type)


# ---------------------------------------------------------------- bytes


@pytest.mark.parametrize("payload", [b"ab", bytearray(b"ab"), memoryview(b"xabx")[1:3]])
def test_bytes_are_written_as_they_are(payload: Any) -> None:
    assert BYTES.encode(payload) == b"ab"
    assert type(BYTES.encode(payload)) is bytes
    assert BYTES.decode(payload, "any/thing") == b"ab"


@pytest.mark.parametrize("payload", ["text", 5, None, [1, 2]])
def test_only_bytes_are_written_as_bytes(payload: Any) -> None:
    with pytest.raises(EncodeError, match=r"^acemq: "):
        BYTES.encode(payload)


# ---------------------------------------------------------------- composite


class Failing:
    content_type = "x/failing"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def encode(self, payload: Any) -> bytes:
        raise self.error

    def decode(self, body: bytes, content_type: str | None = None) -> Any:
        raise self.error

    def can_decode(self, content_type: str | None) -> bool:
        return content_type == self.content_type


def test_a_composite_writes_its_first() -> None:
    assert CompositeCodec(TEXT, JSON).encode("a") == b"a"
    with pytest.raises(EncodeError):
        CompositeCodec(TEXT, JSON).encode({})


@pytest.mark.parametrize(
    ("body", "content_type", "payload"),
    [
        (b'"a"', "application/json", "a"),
        (b'"a"', "text/plain", '"a"'),
        (b"a", "text/json", "a"),
        (b'"a"', None, "a"),
        (b"a", None, "a"),
        (b"a", "", "a"),
        (b"\xff", None, b"\xff"),
        (b"\x89PNG", "image/png", b"\x89PNG"),
    ],
)
def test_a_composite_reads_with_who_claims_it(body: bytes, content_type: Any, payload: Any) -> None:
    assert CompositeCodec(JSON, TEXT, BYTES).decode(body, content_type) == payload


def test_a_composite_asks_all_where_there_is_no_content_type() -> None:
    assert CompositeCodec(JSON, TEXT).decode(b"a", None) == "a"
    assert not TEXT.can_decode(None)


def test_a_composite_tells_every_reason() -> None:
    with pytest.raises(DecodeError) as refused:
        CompositeCodec(JSON, TEXT, Failing(ValueError("own words"))).decode(b"\xff", None)
    told = str(refused.value)
    assert all(part in told for part in ("JsonCodec", "TextCodec", "Failing", "own words"))


def test_a_composite_whose_codecs_do_not_claim_it_says_so() -> None:
    with pytest.raises(DecodeError, match=r"image/png.*JsonCodec does not claim it"):
        CompositeCodec(JSON).decode(b"{}", "image/png")


@pytest.mark.parametrize("error", [FatalError("gone"), StoreError("down")])
def test_a_composite_does_not_hide_what_no_other_codec_can_mend(error: Exception) -> None:
    with pytest.raises(type(error)):
        CompositeCodec(Failing(error), BYTES).decode(b"x", None)


@pytest.mark.parametrize(
    ("content_type", "claimed"), [(None, True), ("", True), ("text/x", True), ("image/png", False)]
)
def test_a_composite_claims_what_any_of_them_claims(content_type: Any, claimed: bool) -> None:
    assert CompositeCodec(TEXT, JSON).can_decode(content_type) is claimed


def test_a_composite_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"^acemq: "):
        CompositeCodec()
