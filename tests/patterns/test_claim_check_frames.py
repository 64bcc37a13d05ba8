"""The claim-check codec by itself: its frames, other publishers' bodies, and what goes wrong."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import acemq_stores
from acemq_amqp import (
    AceMQError,
    ConfigurationError,
    DecodeError,
    EncodeError,
    FatalError,
    StoreError,
    patterns,
)
from acemq_amqp.blocking import patterns as blocking_patterns
from acemq_amqp.codec import BytesCodec, Codec, CompositeCodec, JsonCodec
from acemq_amqp.patterns import (
    DEFAULT_THRESHOLD,
    ClaimCheckCodec,
    ClaimCheckStore,
    InMemoryClaimCheckStore,
    claim_key_of,
    is_claim_check,
)

INLINE, CHECKED = b"\xac\x01\x00", b"\xac\x01\x01"

both_ways = pytest.mark.parametrize("way", ["called", "awaited"])


class Both:
    """A codec, called as the blocking flavour does or awaited as the async one does."""

    def __init__(self, codec: Any, way: str) -> None:
        self._codec = codec
        self._way = way

    def encode(self, payload: Any) -> bytes:
        if self._way == "called":
            return bytes(self._codec.encode(payload))
        return bytes(asyncio.run(self._codec.encode_async(payload)))

    def decode(self, body: bytes, content_type: str | None = None) -> Any:
        if self._way == "called":
            return self._codec.decode(body, content_type)
        return asyncio.run(self._codec.decode_async(body, content_type))


def bytes_codec(threshold: int = 4, store: Any = None) -> ClaimCheckCodec:
    store = InMemoryClaimCheckStore() if store is None else store
    return ClaimCheckCodec(BytesCodec(), store, threshold=threshold)


class Store:
    """A foreign store whose calls are given."""

    def __init__(self, put: Any = None, get: Any = None) -> None:
        self._put, self._get = put, get

    def __repr__(self) -> str:
        return "Store()"

    def put(self, content: bytes) -> str:
        key: str = self._do(self._put)
        return key

    def get(self, key: str) -> bytes | None:
        content: bytes | None = self._do(self._get)
        return content

    def delete(self, key: str) -> None: ...

    @staticmethod
    def _do(what: Any) -> Any:
        if isinstance(what, BaseException):
            raise what
        return what


# ------------------------------------------------------------ frames


@both_ways
@pytest.mark.parametrize(
    ("payload", "inline"), [(b"", True), (b"abc", True), (b"abcd", False), (b"abcde", False)]
)
def test_what_reaches_the_threshold_is_put_aside(way: str, payload: bytes, inline: bool) -> None:
    store = InMemoryClaimCheckStore()
    body = Both(bytes_codec(4, store), way).encode(payload)
    if inline:
        assert (body, len(store)) == (INLINE + payload, 0)
    else:
        assert body[:3] == CHECKED
        assert store.get(body[3:].decode()) == payload


@both_ways
def test_a_threshold_of_0_puts_everything_aside(way: str) -> None:
    codec = Both(bytes_codec(0), way)
    body = codec.encode(b"")
    assert is_claim_check(body)
    assert codec.decode(body) == b""


def test_the_key_is_exactly_what_put_returned() -> None:
    assert bytes_codec(0, Store(put="my/own:key")).encode(b"") == CHECKED + b"my/own:key"


@both_ways
@given(payload=st.binary(max_size=64), threshold=st.integers(0, 64))
def test_what_was_encoded_is_decoded(way: str, payload: bytes, threshold: int) -> None:
    codec = Both(bytes_codec(threshold), way)
    assert codec.decode(codec.encode(payload)) == payload


@both_ways
@given(body=st.binary(max_size=40))
def test_a_body_of_another_publisher_goes_to_the_delegate_untouched(way: str, body: bytes) -> None:
    if body[:3] in (INLINE, CHECKED):
        return
    assert Both(bytes_codec(), way).decode(body) == body
    assert (is_claim_check(body), claim_key_of(body)) == (False, None)


@both_ways
@pytest.mark.parametrize(
    "body", [b"", b"\xac", b"\xac\x01", b"\xac\x01\x02x", b"\xac\x02\x01x", b"\xad\x01\x01x", b"{}"]
)
def test_what_nearly_is_a_frame_is_none(way: str, body: bytes) -> None:
    assert Both(bytes_codec(), way).decode(body) == body


def test_a_frame_is_told_from_other_bodies() -> None:
    checked, inline = CHECKED + b"key", INLINE + b"key"
    assert [is_claim_check(body) for body in (checked, inline, b"key")] == [True, False, False]
    assert [claim_key_of(body) for body in (checked, inline, b"key")] == ["key", None, None]
    assert claim_key_of(CHECKED + b"\xff") is None


def test_it_shows_what_it_is_made_of() -> None:
    delegate, store = JsonCodec(), InMemoryClaimCheckStore()
    codec = ClaimCheckCodec(delegate, store)
    assert (codec.delegate, codec.store, codec.threshold) == (delegate, store, DEFAULT_THRESHOLD)
    assert (codec.content_type, DEFAULT_THRESHOLD) == ("application/json", 65536)
    assert [codec.can_decode(each) for each in ("application/json", "text/plain")] == [True, False]
    assert repr(codec) == f"ClaimCheckCodec({delegate!r}, above=65536 bytes)"


def test_a_negative_threshold_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"^acemq: the threshold") as raised:
        bytes_codec(-1)
    assert isinstance(raised.value, ValueError)


def test_the_content_type_reaches_the_delegate() -> None:
    codec = ClaimCheckCodec(CompositeCodec(JsonCodec(), BytesCodec()), InMemoryClaimCheckStore())
    assert codec.decode(INLINE + b"[1]", "application/octet-stream") == b"[1]"
    assert codec.decode(INLINE + b"[1]", "application/json") == [1]


# ------------------------------------------------------------ what goes wrong


@both_ways
def test_a_payload_that_is_gone_is_fatal_and_says_so(way: str) -> None:
    with pytest.raises(FatalError, match=r"^acemq: the claim check 'gone' is not in") as raised:
        Both(bytes_codec(), way).decode(CHECKED + b"gone")
    assert "longer than queues, dead letters and replays keep messages" in str(raised.value)


@both_ways
def test_a_key_that_is_no_text_cannot_be_decoded(way: str) -> None:
    with pytest.raises(DecodeError, match="carries no text as its key"):
        Both(bytes_codec(), way).decode(CHECKED + b"\xff\xfe")


@both_ways
@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (ConnectionError("no route"), StoreError),
        (KeyError("x"), StoreError),
        (StoreError("acemq: mine"), StoreError),
        (FatalError("acemq: mine"), FatalError),
        (DecodeError("acemq: mine"), DecodeError),
    ],
    ids=repr,
)
def test_a_store_that_raises_is_a_store_that_does_not_answer(
    way: str, raised: Exception, kind: type[AceMQError]
) -> None:
    codec = Both(bytes_codec(0, Store(put=raised, get=raised)), way)
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("put", lambda: codec.encode(b"")),
        ("get", lambda: codec.decode(CHECKED + b"key")),
    ]
    for verb, call in calls:
        with pytest.raises(kind) as told:
            call()
        if isinstance(raised, AceMQError):
            assert told.value is raised
        else:
            assert told.value.__cause__ is raised
            assert str(told.value).startswith(f"acemq: {verb} of the claim-check store Store() fai")


@both_ways
@pytest.mark.parametrize("key", [None, "", b"key", 7])
def test_a_store_that_gives_no_key_is_told_so(way: str, key: Any) -> None:
    with pytest.raises(StoreError, match="as the key of a payload, where text was expected"):
        Both(bytes_codec(0, Store(put=key)), way).encode(b"")


@both_ways
def test_what_the_delegate_cannot_write_is_not_put_aside(way: str) -> None:
    store = InMemoryClaimCheckStore()
    with pytest.raises(EncodeError):
        Both(ClaimCheckCodec(JsonCodec(), store, threshold=0), way).encode(float("nan"))
    assert len(store) == 0


@both_ways
def test_broken_json_in_a_stored_object_cannot_be_decoded(way: str) -> None:
    store = InMemoryClaimCheckStore()
    codec = Both(ClaimCheckCodec(JsonCodec(), store), way)
    with pytest.raises(DecodeError):
        codec.decode(CHECKED + store.put(b'{"order": ').encode())


@pytest.mark.parametrize("ending", [SystemExit(1), StopIteration()], ids=repr)
def test_whatever_ends_a_store_in_its_thread_is_an_error_that_can_be_told(
    ending: BaseException,
) -> None:
    with pytest.raises(AceMQError):
        Both(bytes_codec(0, Store(get=ending)), "awaited").decode(CHECKED + b"key")


# ------------------------------------------------------------ codecs around codecs


def test_a_composite_hands_the_waiting_on() -> None:
    checked = ClaimCheckCodec(JsonCodec(), InMemoryClaimCheckStore(), threshold=0)
    writing, reading = CompositeCodec(checked, JsonCodec()), CompositeCodec(JsonCodec(), checked)
    assert writing.encode_async is not None
    assert reading.encode_async is None
    assert reading.decode_async is not None
    body = Both(writing, "awaited").encode([1])
    assert is_claim_check(body)
    assert Both(reading, "awaited").decode(body, "application/json") == [1]
    plain = CompositeCodec(JsonCodec(), BytesCodec())
    assert (plain.encode_async, plain.decode_async, plain.blocking) == (None, None, False)


class Zipped:
    """A wrapper that knows nothing of waiting, and says that what it wraps may block."""

    blocking = True
    content_type = "application/zlib"

    def __init__(self, delegate: Codec) -> None:
        self._delegate = delegate

    def encode(self, payload: Any) -> bytes:
        return self._delegate.encode(payload)[::-1]

    def decode(self, body: bytes, content_type: str | None = None) -> Any:
        return self._delegate.decode(body[::-1])

    def can_decode(self, content_type: str | None) -> bool:
        return True


def test_a_composite_of_one_that_blocks_blocks() -> None:
    checked = ClaimCheckCodec(JsonCodec(), InMemoryClaimCheckStore())
    composite = CompositeCodec(checked, Zipped(checked))
    assert (composite.blocking, composite.encode_async, composite.decode_async) == (
        True,
        None,
        None,
    )


@both_ways
def test_a_claim_check_around_one_that_blocks(way: str) -> None:
    inner = Zipped(bytes_codec(0))
    codec = Both(ClaimCheckCodec(inner, InMemoryClaimCheckStore(), threshold=0), way)
    assert codec.decode(codec.encode(b"content")) == b"content"


@both_ways
def test_a_claim_check_around_a_claim_check(way: str) -> None:
    codec = Both(ClaimCheckCodec(bytes_codec(0), InMemoryClaimCheckStore(), threshold=0), way)
    assert codec.decode(codec.encode(b"content")) == b"content"


# ------------------------------------------------------------ names


@pytest.mark.parametrize("module", [patterns, blocking_patterns], ids=lambda each: each.__name__)
def test_every_name_is_there_and_the_stores_are_handed_on(module: Any) -> None:
    for name in module.__all__:
        assert inspect.getdoc(getattr(module, name)) or name == "DEFAULT_THRESHOLD", name
    assert module.FilesystemClaimCheckStore is acemq_stores.FilesystemClaimCheckStore
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'Nope'"):
        module.Nope  # noqa: B018


@pytest.mark.parametrize("name", acemq_stores.__all__)
def test_every_store_is_there(name: str) -> None:
    assert inspect.getdoc(getattr(acemq_stores, name))
    assert name in dir(acemq_stores)


def test_the_stores_are_claim_check_stores() -> None:
    for name in ("FilesystemClaimCheckStore", "S3ClaimCheckStore", "SqlClaimCheckStore"):
        kind = getattr(acemq_stores, name)
        assert all(hasattr(kind, call) for call in ("put", "get", "delete"))
    assert isinstance(InMemoryClaimCheckStore(), ClaimCheckStore)
