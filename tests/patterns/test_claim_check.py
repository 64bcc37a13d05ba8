"""A claim check on queues in use: what readers see, and where messages go when a store fails."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from acemq_amqp import (
    Connection,
    Message,
    StoreError,
    accept,
    dead_letter_queue,
    fixed_retry,
    parked_queue,
)
from acemq_amqp.codec import JsonCodec
from acemq_amqp.patterns import (
    ClaimCheckCodec,
    ClaimCheckStore,
    InMemoryClaimCheckStore,
    claim_key_of,
    is_claim_check,
)
from acemq_stores import FilesystemClaimCheckStore, S3ClaimCheckStore
from tests.contract.api import Api, arrived, holds
from tests.contract.seen import Seen
from tests.contract.waiting import until
from tests.patterns.test_claim_check_frames import Zipped
from tests.support.ports import free_port

LARGE = {"text": "x" * 200}
SMALL = {"text": "x"}


def checked(store: ClaimCheckStore, threshold: int = 100) -> ClaimCheckCodec:
    return ClaimCheckCodec(JsonCodec(), store, threshold=threshold)


@pytest.fixture
def store(tmp_path: Path) -> FilesystemClaimCheckStore:
    return FilesystemClaimCheckStore(tmp_path)


async def test_large_payloads_travel_as_keys_and_small_ones_as_they_are(
    api: Api, store: FilesystemClaimCheckStore
) -> None:
    mq = await api.connect(codec=checked(store))
    queue = await api.queue(mq)
    publisher = mq.publisher("", queue)
    await publisher.send(LARGE)
    await publisher.send(SMALL)
    large, small = await arrived(mq, queue), await arrived(mq, queue)
    assert store.get(claim_key_of(large.body) or "") == JsonCodec().encode(LARGE)
    assert small.body == b"\xac\x01\x00" + JsonCodec().encode(SMALL)
    assert large.properties.content_type == "application/json"


async def test_a_batch_keeps_its_order(api: Api, store: FilesystemClaimCheckStore) -> None:
    mq = await api.connect(codec=checked(store))
    queue = await api.queue(mq)
    seen = Seen()
    batch = [LARGE | {"number": number} if number % 3 else number for number in range(60)]
    results = await mq.publisher("", queue).send_many(batch)
    assert len({result.message_id for result in results}) == 60
    await mq.consume(queue, seen)
    await seen.count(60)
    assert seen.payloads == batch


async def test_a_live_queue_with_plain_messages_in_it(
    api: Api, store: FilesystemClaimCheckStore
) -> None:
    """Readers first, then publishers; and messages of both kinds and a foreigner's are read."""
    mq = await api.connect()
    queue = await api.queue(mq)
    await mq.publisher("", queue).send_many([LARGE, SMALL])
    await api.publish_raw(queue, b'"foreign"', content_type="application/json")
    await api.publish_raw(queue, b'"untyped"')
    await mq.publisher("", queue, codec=checked(store)).send_many([LARGE, SMALL])
    seen = Seen()
    await mq.consume(queue, seen, codec=checked(store))
    await seen.count(6)
    assert seen.payloads == [LARGE, SMALL, "foreign", "untyped", LARGE, SMALL]


async def test_the_other_flavour_reads_it(api: Api, store: FilesystemClaimCheckStore) -> None:
    mq = await api.connect(codec=checked(store, 0))
    other = await api.connect_other(codec=checked(store))
    queue = await api.queue(mq)
    seen = Seen()
    await other.consume(queue, seen)
    await mq.publisher("", queue).send("everything goes aside")
    assert (await seen.first()).payload == "everything goes aside"
    assert is_claim_check(seen.messages[0].body)


async def test_a_reader_without_it_parks_what_it_cannot_read(
    api: Api, store: FilesystemClaimCheckStore
) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    await mq.publisher("", queue, codec=checked(store)).send(LARGE)
    consumer = await mq.consume(queue, Seen())
    parked = await arrived(mq, parked_queue(queue))
    await consumer.close()
    # and replayed by hand to one with it, it is read
    await api.publish_raw(queue, parked.body, content_type=parked.properties.content_type)
    seen = Seen()
    await mq.consume(queue, seen, codec=checked(store))
    assert (await seen.first()).payload == LARGE


# ------------------------------------------------------------ faults, and where messages go


async def error_in(mq: Connection, queue: str) -> str:
    return str((await arrived(mq, queue)).headers["x-acemq-error"])


async def sent_aside(api: Api, store: FilesystemClaimCheckStore, **options: Any) -> tuple[Any, ...]:
    mq = await api.connect(codec=checked(store), **options)
    queue = await api.queue(mq)
    await mq.publisher("", queue).send(LARGE)
    return mq, queue


async def test_a_payload_that_is_gone_is_a_dead_letter_at_once(
    api: Api, store: FilesystemClaimCheckStore
) -> None:
    mq, queue = await sent_aside(api, store, retry=fixed_retry(5, 0.01))
    ((key, _),) = store.listing()
    store.delete(key)
    seen = Seen()
    await mq.consume(queue, seen)
    error = await error_in(mq, dead_letter_queue(queue))
    assert error.startswith("the handler reported an unprocessable message: FatalError: acemq: the")
    assert f"the claim check '{key}' is not in" in error
    assert seen.messages == []


@pytest.mark.parametrize("content", [b"{", b'{"text": "y"}', b""], ids=["cut", "swapped", "empty"])
async def test_a_damaged_payload_is_a_dead_letter_at_once(
    api: Api, store: FilesystemClaimCheckStore, content: bytes
) -> None:
    mq, queue = await sent_aside(api, store, retry=fixed_retry(5, 0.01))
    ((key, _),) = store.listing()
    (store.directory / key).write_bytes(content)
    await mq.consume(queue, Seen())
    error = await error_in(mq, dead_letter_queue(queue))
    assert "it was damaged or replaced" in error


@pytest.mark.parametrize("key", [b"../../etc/passwd", b"/etc/passwd", b"\xff", b""], ids=repr)
async def test_a_key_that_is_a_path_is_parked_and_never_looked_up(
    api: Api, store: FilesystemClaimCheckStore, key: bytes
) -> None:
    mq = await api.connect(codec=checked(store))
    queue = await api.queue(mq)
    await api.publish_raw(queue, b"\xac\x01\x01" + key, content_type="application/json")
    await mq.consume(queue, Seen())
    error = await error_in(mq, parked_queue(queue))
    assert error.startswith("could not be decoded: DecodeError: acemq: ")


async def test_a_store_that_is_away_for_a_while_costs_retries_and_nothing_else(
    api: Api, store: FilesystemClaimCheckStore
) -> None:
    mq, queue = await sent_aside(api, store, retry=fixed_retry(1000, 0.02))
    hidden = store.directory.with_name("unmounted")
    store.directory.rename(hidden)
    store.directory.mkdir()
    seen = Seen()
    await mq.consume(queue, seen)
    with pytest.raises(StoreError, match=r"is the file system mounted\?"):
        await mq.publisher("", queue).send(LARGE)
    store.directory.rmdir()
    hidden.rename(store.directory)
    assert (await seen.first()).payload == LARGE


async def test_a_store_that_stays_away_is_a_dead_letter_after_the_policy_s_tries(
    api: Api, store: FilesystemClaimCheckStore
) -> None:
    pytest.importorskip("boto3")
    nowhere = S3ClaimCheckStore(
        "bucket",
        endpoint_url=f"http://127.0.0.1:{free_port()}",
        region="eu-west-1",
        session=_session(),
        attempts=1,
    )
    mq, queue = await sent_aside(api, store)
    await mq.consume(queue, Seen(), codec=checked(nowhere), retry=fixed_retry(3, 0.01))
    error = await error_in(mq, dead_letter_queue(queue))
    assert error.startswith("exhausted 3 attempts: StoreError: acemq: could not read")
    assert "the server cannot be reached" in error


def _session() -> Any:
    import boto3

    return boto3.Session(aws_access_key_id="tests", aws_secret_access_key="tests")


async def test_what_cannot_be_put_aside_is_not_sent(api: Api, tmp_path: Path) -> None:
    store = FilesystemClaimCheckStore(tmp_path / "store")
    mq = await api.connect(codec=checked(store))
    queue = await api.queue(mq)
    (tmp_path / "store" / ".acemq").rmdir()
    (tmp_path / "store" / ".acemq").write_bytes(b"in the way")
    publisher = mq.publisher("", queue)
    for sending in (publisher.send(LARGE), publisher.send_many([SMALL, LARGE, SMALL])):
        with pytest.raises(StoreError, match=r"^acemq: could not write the claim-check payload"):
            await sending
    await holds(mq, queue, 0)


# ------------------------------------------------------------ a store that stalls


class Stalling(InMemoryClaimCheckStore):
    """A store whose calls stand still until they are let go; tells in which threads."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.threads: set[str] = set()

    def _stall(self) -> None:
        self.threads.add(threading.current_thread().name)
        assert self.go.wait(60)

    def put(self, content: bytes) -> str:
        self._stall()
        return super().put(content)

    def get(self, key: str) -> bytes | None:
        self._stall()
        return super().get(key)


async def test_while_a_store_stalls_messages_and_heartbeats_go_on(api: Api) -> None:
    """For 2 s and longer than two heartbeats: the connection would be lost if the loop stood."""
    store = Stalling()
    key = InMemoryClaimCheckStore.put(store, JsonCodec().encode(LARGE))
    separator = "&" if "?" in api.stand.url else "?"
    beating = "" if api.stand.url.startswith("memory") else f"{separator}heartbeat=1"
    mq = await api.flavour.connect(api.stand.url + beating)
    api._opened.push_async_callback(mq.close, 5.0)
    slow, quick = await api.queue(mq, "slow"), await api.queue(mq, "quick")
    late, seen = Seen(), Seen()
    await mq.consume(slow, late, codec=checked(store), concurrency=4)
    await mq.consume(quick, seen)
    for _ in range(4):
        await api.publish_raw(slow, b"\xac\x01\x01" + key.encode())
    sending = asyncio.ensure_future(mq.publisher("", slow, codec=checked(store)).send(LARGE))
    await until(lambda: len(store.threads) >= 5, "five calls of the store standing still")
    began, beats = time.monotonic(), 0
    while time.monotonic() < began + 2.5:
        await mq.publisher("", quick).send(beats)
        beats += 1
        await asyncio.sleep(0.05)
    await seen.count(beats)
    assert (late.messages, sending.done()) == ([], False)
    store.go.set()
    await sending
    await late.count(5)
    assert late.payloads == [LARGE] * 5
    report = await mq.health()
    assert report.recoveries == 0
    if api.flavour.name == "async":
        assert all(name.startswith("acemq-store") for name in store.threads)


async def test_a_store_has_eight_threads_however_many_codecs_share_it(api: Api) -> None:
    if api.flavour.name == "blocking":
        pytest.skip("callers wait in their own threads")
    store = Stalling()
    mq = await api.connect()
    queue = await api.queue(mq)
    sending = [
        asyncio.ensure_future(mq.publisher("", queue, codec=checked(store)).send(LARGE))
        for _ in range(20)
    ]
    await until(lambda: len(store.threads) == 8, "eight calls standing still")
    store.go.set()
    await asyncio.gather(*sending)
    assert len(store.threads) == 8
    await holds(mq, queue, 20)


async def test_a_wrapper_that_says_it_blocks_runs_whole_in_a_thread(api: Api) -> None:
    store = Stalling()
    mq = await api.connect()
    queue = await api.queue(mq)
    codec = Zipped(checked(store))
    sending = asyncio.ensure_future(mq.publisher("", queue, codec=codec).send(LARGE))
    await until(lambda: len(store.threads) == 1, "the store asked")
    await mq.health()  # the loop goes on
    store.go.set()
    await sending
    seen = Seen()
    await mq.consume(queue, seen, codec=codec)
    assert (await seen.first()).payload == LARGE
    if api.flavour.name == "async":
        assert all(name.startswith("acemq-codec") for name in store.threads)


async def test_at_concurrency_1_order_is_kept_whatever_the_store_takes(api: Api) -> None:
    class Uneven(InMemoryClaimCheckStore):
        def get(self, key: str) -> bytes | None:
            time.sleep(0.05 if len(asked) % 3 == 0 else 0.0)
            asked.append(key)
            return super().get(key)

    asked: list[str] = []
    mq = await api.connect(codec=checked(Uneven()))
    queue = await api.queue(mq)
    batch = [LARGE | {"number": number} if number % 2 else number for number in range(20)]
    await mq.publisher("", queue).send_many(batch)
    seen = Seen()
    await mq.consume(queue, seen, prefetch=10)
    await seen.count(20)
    assert seen.payloads == batch


async def test_closing_while_a_store_stalls_gives_the_message_back(api: Api) -> None:
    store = Stalling()
    key = InMemoryClaimCheckStore.put(store, JsonCodec().encode(LARGE))
    mq = await api.connect()
    queue = await api.queue(mq)
    seen = Seen()
    consumer = await mq.consume(queue, seen, codec=checked(store))
    await api.publish_raw(queue, b"\xac\x01\x01" + key.encode())
    await until(lambda: len(store.threads) == 1, "the store asked")
    assert await consumer.close(0.1) is False
    await holds(mq, queue, 1)
    store.go.set()
    again = Seen(lambda message: accept())
    await mq.consume(queue, again, codec=checked(store))
    assert (await again.first()).payload == LARGE


async def test_interceptors_and_handlers_see_the_payload_itself(
    api: Api, store: FilesystemClaimCheckStore
) -> None:
    published: list[Any] = []
    mq = await api.connect(
        codec=checked(store), on_publish=lambda seen: published.append(seen.payload)
    )
    queue = await api.queue(mq)
    await mq.publisher("", queue).send(LARGE, headers={"team": "shop"})
    seen: Seen = Seen()
    await mq.consume(queue, seen)
    message: Message = await seen.first()
    assert published == [LARGE]
    assert (message.payload, message.headers["team"]) == (LARGE, "shop")
