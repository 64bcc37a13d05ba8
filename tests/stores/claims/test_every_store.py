"""What every claim-check store promises."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acemq_amqp import DecodeError, FatalError
from acemq_amqp.codec import JsonCodec
from acemq_amqp.patterns import ClaimCheckCodec, ClaimCheckStore
from acemq_stores.claim_keys import is_key
from tests.stores.claims.stands import StoreStand

UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
BAD_KEYS = [
    *("", ".", "..", "../x", "/etc/passwd", "a/b", "a\\b", "C:\\x", "a\0b", "%2e%2e/x", ".acemq"),
    *(".hidden", "-x", "_x", "a b", "schlüssel", "a\n", "\uff1123", "a" * 129),
]


def test_it_has_the_three_calls(stand: StoreStand) -> None:
    assert isinstance(stand.store, ClaimCheckStore)


@pytest.mark.parametrize(
    "content",
    [b"", b"x", b"\x00\xff\r\n", b"\xac\x01\x01x", bytes(range(256)) * 4096],
    ids=["empty", "one byte", "any bytes", "frame", "a megabyte"],
)
def test_what_was_put_comes_back_as_often_as_it_is_asked_for(
    stand: StoreStand, content: bytes
) -> None:
    key = stand.store.put(content)
    assert [stand.store.get(key) for _ in range(2)] == [content, content]


def test_a_key_is_a_fresh_uuid(stand: StoreStand) -> None:
    keys = {stand.store.put(b"the same") for _ in range(20)}
    assert len(keys) == 20
    assert all(UUID4.fullmatch(key) and is_key(key) for key in keys)


def test_another_program_finds_it(lasting: StoreStand) -> None:
    key = lasting.store.put(b"content")
    assert lasting.another().get(key) == b"content"


def test_a_key_that_nobody_put_is_none(stand: StoreStand) -> None:
    assert stand.store.get("3f0c8a52-7a39-4d3e-9a57-0a1b2c3d4e5f") is None


def test_what_was_deleted_is_none_and_deleting_again_is_no_error(stand: StoreStand) -> None:
    kept, key = stand.store.put(b"kept"), stand.store.put(b"content")
    for _ in range(2):
        stand.store.delete(key)
    assert stand.store.get(key) is None
    assert stand.store.get(kept) == b"kept"


@pytest.mark.parametrize("key", BAD_KEYS, ids=repr)
@pytest.mark.parametrize("verb", ["get", "delete"])
def test_a_key_that_no_store_issues_is_refused(lasting: StoreStand, verb: str, key: str) -> None:
    with pytest.raises(DecodeError, match=r"^acemq: .* is not a key that this store issued"):
        getattr(lasting.store, verb)(key)


@given(key=st.text(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_breaks_a_store(lasting: StoreStand, key: str) -> None:
    if is_key(key):
        return
    with pytest.raises(DecodeError):
        lasting.store.get(key)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (b"{", "has 1 bytes and 14 were put"),
        (b"", "has 0 bytes and 14 were put"),
        (b'{"order": 41}x', "has the right length and other bytes"),
        (b'{"order": 42} and more', "has 22 bytes and 14 were put"),
    ],
    ids=["broken", "emptied", "other bytes", "longer"],
)
def test_a_damaged_payload_is_fatal_and_says_what_is_wrong(
    lasting: StoreStand, found: bytes, told: str
) -> None:
    key = lasting.store.put(b'{"order": 423}')
    lasting.replace(key, found)
    with pytest.raises(FatalError, match=f"^acemq: the payload {key} in .* {told}") as raised:
        lasting.store.get(key)
    assert "restore the payload, then replay the message" in str(raised.value)


def test_a_payload_swapped_for_another_is_fatal(lasting: StoreStand) -> None:
    mine, other = lasting.store.put(b"pay Anna 10"), lasting.store.put(b"pay Bert 99")
    lasting.replace(mine, b"pay Bert 99")
    with pytest.raises(FatalError, match="other bytes than were put"):
        lasting.store.get(mine)
    assert lasting.store.get(other) == b"pay Bert 99"


def test_a_codec_over_it_reads_what_a_codec_over_another_wrote(lasting: StoreStand) -> None:
    written = ClaimCheckCodec(JsonCodec(), lasting.store, threshold=0).encode({"order": 42})
    assert ClaimCheckCodec(JsonCodec(), lasting.another()).decode(written) == {"order": 42}


def test_many_threads_share_it(stand: StoreStand) -> None:
    together = threading.Barrier(8)

    def work(number: int) -> list[Any]:
        together.wait()
        contents = [f"{number}.{each}".encode() for each in range(10)]
        keys = [stand.store.put(content) for content in contents]
        read = [stand.store.get(key) for key in keys]
        for key in keys[::2]:
            stand.store.delete(key)
        return [read == contents, [stand.store.get(key) for key in keys[1::2]] == contents[1::2]]

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(8))) == [[True, True]] * 8


def test_its_keys_are_listed_with_their_age(lasting: Any) -> None:
    keys = {lasting.store.put(b"content") for _ in range(3)}
    gone = lasting.store.put(b"content")
    lasting.store.delete(gone)
    listed = dict(lasting.store.listing())
    assert set(listed) == keys
    assert max(listed.values()) - min(listed.values()) < 3600
