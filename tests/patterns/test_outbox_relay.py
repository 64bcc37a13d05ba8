"""The relay on the broker in memory and on RabbitMQ, in both flavours."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from acemq_amqp import ConfigurationError, EncodeError, Envelope, connect
from acemq_amqp.blocking.patterns import OutboxRelay as BlockingRelay
from acemq_amqp.codec import TextCodec
from acemq_amqp.patterns import InMemoryOutboxStore, OutboxRelay, record
from acemq_amqp.patterns.waiting import driven
from acemq_stores import SqlOutboxStore, create_schema
from tests.contract.api import Api, arrived, holds
from tests.contract.conftest import troubled, troubled_stand  # noqa: F401 - fixtures
from tests.contract.seen import Seen
from tests.contract.waiting import until
from tests.patterns.relays import make_relay
from tests.stores import databases


async def status(store: Any) -> tuple[int, int]:
    told = driven(store.status())
    return told.waiting, told.set_aside


async def test_a_record_arrives_as_it_was_made(api: Api) -> None:
    mq = await api.connect(origin="shop@here")
    queue = await api.queue(mq)
    store = InMemoryOutboxStore()
    envelope = Envelope(
        id="order-7", type="order.placed", causation_id="basket-3", headers={"tenant": "blue"}
    )
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    dated = envelope.with_(headers={"tenant": "blue", "raw": b"\x00\xff", "at": moment})
    store.add(record(mq, "", queue, {"total": 12}, envelope=dated))
    store.add(record(mq, "", queue, "hello", codec=TextCodec()))
    relay = make_relay(api, mq, store)
    assert await relay.sweep() == 2
    first, second = sorted(
        [await arrived(mq, queue), await arrived(mq, queue)], key=lambda each: each.body
    )
    assert (first.body, second.body) == (b"hello", b'{"total":12}')
    assert first.properties.content_type == TextCodec().content_type
    seen = second.message().envelope
    assert (seen.id, seen.type, seen.causation_id) == ("order-7", "order.placed", "basket-3")
    assert (seen.origin, seen.first_seen) == ("shop@here", envelope.first_seen)
    headers = {name: value for name, value in seen.headers.items() if name != "x-delivery-count"}
    assert headers == {"tenant": "blue", "raw": b"\x00\xff", "at": moment}
    assert second.properties.message_id == "order-7"


async def test_many_records_keep_the_order_of_their_keys(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    store = InMemoryOutboxStore()
    store.add_many(
        record(mq, "", queue, [number % 7, number], ordering_key=f"key-{number % 7}")
        for number in range(300)
    )
    relay = make_relay(api, mq, store, interval=0.01)
    await relay.start()
    await holds(mq, queue, 300)
    await relay.close()
    found = [json.loads((await arrived(mq, queue)).body) for _ in range(300)]
    for key in range(7):
        assert [number for its, number in found if its == key] == list(range(key, 300, 7))


async def test_it_wakes_when_it_is_told_to(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    store = InMemoryOutboxStore()
    relay = make_relay(api, mq, store, interval=3600)
    await relay.start()
    await holds(mq, queue, 0)
    store.add(record(mq, "", queue, "x"))
    relay.wake()
    await holds(mq, queue, 1)


async def test_a_missing_queue_counts_and_is_set_aside(api: Api) -> None:
    mq = await api.connect()
    store = InMemoryOutboxStore(max_attempts=1)
    store.add(record(mq, "", api.name("nowhere"), "x"))
    store.add(record(mq, api.name("no-exchange"), "key", "y"))
    relay = make_relay(api, mq, store)
    assert await relay.sweep() == 0
    assert await status(store) == (0, 2)
    errors = sorted(error for _, error in driven(store.set_aside()))
    assert "no queue took message" in errors[0] or "no queue took message" in errors[1]
    assert any("no exchange" in error for error in errors)


async def test_one_too_large_is_set_aside_and_holds_nobody_else(api: Api) -> None:
    mq = await api.connect(max_message_size=1000)
    queue = await api.queue(mq)
    store = InMemoryOutboxStore(max_attempts=1)
    store.add(record(mq, "", queue, "x" * 2000, ordering_key="k"))
    store.add(record(mq, "", queue, "small", ordering_key="j"))
    assert await make_relay(api, mq, store).sweep() == 1
    assert await status(store) == (0, 1)


async def test_a_blocked_broker_counts_no_attempt_and_all_goes_out_afterwards(
    troubled: Api,  # noqa: F811
) -> None:
    mq = await troubled.connect(timeout=0.5)
    queue = await troubled.queue(mq)
    store = InMemoryOutboxStore(max_attempts=1)
    relay = make_relay(troubled, mq, store, interval=0.05)
    store.add(record(mq, "", queue, 0, ordering_key="k"))
    assert await relay.sweep() == 1
    await troubled.stand.raise_alarm()
    store.add_many(record(mq, "", queue, number, ordering_key="k") for number in (1, 2))
    assert await relay.sweep() == 0
    assert mq.blocked
    assert await status(store) == (2, 0)
    await troubled.stand.end_alarm()
    await relay.start()
    await until(lambda: driven(store.status()).waiting == 0, "all published")
    # what was written into the alarm may be there twice, under its id
    found = [await arrived(mq, queue) for _ in range(await mq.message_count(queue))]
    assert list(dict.fromkeys(each.body for each in found)) == [b"0", b"1", b"2"]
    assert driven(store.status()).set_aside == 0


# ------------------------------------------------------------ on SQL


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[str]:
    database = f"sqlite:///{tmp_path}/outbox.db"
    create_schema(database)
    yield database


async def test_an_order_and_its_message_are_one_commit(api: Api, sqlite: str) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    store = SqlOutboxStore(sqlite)
    api._opened.callback(store.close)
    databases.run(sqlite, "CREATE TABLE orders (id integer)")
    relay = make_relay(api, mq, store, interval=0.01)
    await relay.start()
    for number in range(20):
        with closing(databases.opened(sqlite)) as tx:
            tx.execute("INSERT INTO orders VALUES (?)", (number,))
            store.add(record(mq, "", queue, number, ordering_key="orders"), connection=tx)
            tx.rollback() if number % 2 else tx.commit()
    await holds(mq, queue, 10)
    await relay.close()
    seen = Seen()
    consumer = await mq.consume(queue, seen)
    await seen.count(10)
    await consumer.close()
    assert seen.payloads == list(range(0, 20, 2))


async def test_two_relays_share_the_work_and_double_nothing(api: Api, sqlite: str) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    stores = [SqlOutboxStore(sqlite) for _ in range(2)]
    for store in stores:
        api._opened.callback(store.close)
    keys = [f"k{number % 9}" if number % 2 else "" for number in range(400)]
    await stores[0].add_many(
        [record(mq, "", queue, number, ordering_key=key) for number, key in enumerate(keys)]
    )
    relays = [make_relay(api, mq, store, interval=0.01, batch=20) for store in stores]
    for relay in relays:
        await relay.start()
    await holds(mq, queue, 400)
    for relay in relays:
        await relay.close()
    assert driven(stores[0].status()).waiting == 0
    assert await mq.message_count(queue) == 400


# ------------------------------------------------------------ records


async def test_what_cannot_be_sent_fails_when_it_is_recorded() -> None:
    async with connect("memory://records") as mq:
        with pytest.raises(EncodeError):
            record(mq, "", "q", object())
        with pytest.raises(ConfigurationError, match="over 255 bytes"):
            record(mq, "", "q" * 300, {})
        for options in ({"ordering_key": "a\0b"}, {"ordering_key": "\ud800"}):
            with pytest.raises(ConfigurationError, match="a database can keep"):
                record(mq, "", "q", {}, **options)  # type: ignore[arg-type]
        made = record(mq, "", "q", {}, envelope=Envelope(id="id-1", headers={"a": 1}))
        assert (made.id, made.envelope.id, made.envelope.headers) == ("id-1", "id-1", {"a": 1})
        assert made.envelope.type == "q"


@pytest.mark.parametrize(
    "options", [{"batch": 0}, {"batch": True}, {"concurrency": 0}, {"interval": -1}]
)
async def test_a_relay_that_cannot_work_is_refused(options: dict[str, Any]) -> None:
    async with connect("memory://records") as mq:
        with pytest.raises(ConfigurationError):
            OutboxRelay(mq, InMemoryOutboxStore(), **options)
        with pytest.raises(ConfigurationError, match="no outbox store"):
            OutboxRelay(mq, object())  # type: ignore[arg-type]


def test_the_blocking_relay_has_the_async_one_s_face() -> None:
    for name in ("__init__", "start", "sweep", "wake", "close"):
        ours, theirs = (
            inspect.signature(getattr(kind, name)).parameters.values()
            for kind in (OutboxRelay, BlockingRelay)
        )
        assert [(each.name, each.default) for each in ours] == [
            (each.name, each.default) for each in theirs
        ]
