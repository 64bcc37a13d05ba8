"""The relay's decisions: chains, what counts as an attempt, and what a lost lease stops."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from acemq_amqp import (
    ConfigurationError,
    ConnectionLost,
    EncodeError,
    PublishingPaused,
    PublishRefused,
    PublishUnknown,
    StoreError,
)
from acemq_amqp.core.observer import Observing
from acemq_amqp.flavours.tasks import TaskWork
from acemq_amqp.flavours.threads import ThreadWork
from acemq_amqp.metrics import Metrics
from acemq_amqp.patterns import InMemoryOutboxStore, OutboxRecord, OutboxRow
from acemq_amqp.patterns.relaying import Relaying, chains_of, counts_as_attempt
from acemq_amqp.patterns.waiting import driven


def made(id_: str, key: str = "") -> OutboxRecord:
    return OutboxRecord(id_, "events", "order.placed", b"{}", "application/json", b"", key)


def test_chains_keep_the_order_of_a_key_and_leave_the_rest_alone() -> None:
    keys = [(3, "a"), (1, "a"), (2, ""), (5, "b"), (4, "")]
    rows = [OutboxRow(seq, made(str(seq), key)) for seq, key in keys]
    assert [[row.seq for row in chain] for chain in chains_of(rows)] == [[1, 3], [5], [2], [4]]


@pytest.mark.parametrize(
    ("failure", "counts"),
    [
        (PublishRefused("nacked", stored="perhaps"), True),
        (PublishRefused("returned", code=312), True),
        (PublishRefused("no exchange", code=404), True),
        (PublishRefused("too large", code=311), True),
        (EncodeError("x"), True),
        (ConfigurationError("x"), True),
        (ValueError("an interceptor's"), True),
        (PublishRefused("not sent: the link is down"), False),
        (PublishingPaused("blocked"), False),
        (PublishUnknown("no confirm"), False),
        (ConnectionLost("gone"), False),
    ],
)
def test_only_a_refusal_of_the_record_counts(failure: Exception, counts: bool) -> None:
    assert counts_as_attempt(failure) is counts


class Broker:
    """What a relay sends to."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.failures: dict[str, list[Exception]] = {}

    async def send(self, record: OutboxRecord) -> None:
        waiting = self.failures.get(record.id)
        if waiting:
            raise waiting.pop(0)
        self.sent.append(record.id)


class Bench:
    """A relay on a store and a broker of the test's own."""

    def __init__(self, store: Any = None, **options: Any) -> None:
        self.now = 0.0
        self.store = store or InMemoryOutboxStore(clock=lambda: self.now, **options)
        self.broker = Broker()
        self.metrics = Metrics()
        self.relaying = self.relay()

    def relay(self, work: Any = None) -> Relaying:
        return Relaying(
            work or ThreadWork(),
            self.broker.send,
            self.store,
            Observing(self.metrics),
            interval=0.01,
            batch=100,
            width=1,
        )

    def sweep(self) -> int:
        return driven(self.relaying.sweep())


def test_a_sweep_publishes_all_that_is_due_once() -> None:
    bench = Bench()
    bench.store.add_many([made("1", "k"), made("2"), made("3", "k")])
    assert (bench.sweep(), bench.sweep()) == (3, 0)
    assert bench.broker.sent == ["1", "3", "2"]


def test_a_refused_record_is_tried_again_and_its_key_waits() -> None:
    bench = Bench()
    bench.store.add_many([made("1", "k"), made("2", "k"), made("3", "j")])
    bench.broker.failures["1"] = [PublishRefused("returned", code=312)]
    assert bench.sweep() == 1
    assert bench.broker.sent == ["3"]
    bench.now += 1.1
    assert bench.sweep() == 2
    assert bench.broker.sent == ["3", "1", "2"]


def test_a_connection_that_is_lost_counts_no_attempt_and_stops_the_sweep() -> None:
    bench = Bench(max_attempts=1)
    bench.store.add_many([made("1", "k"), made("2", "j"), made("3")])
    for _ in range(5):
        bench.broker.failures["1"] = [ConnectionLost("gone")]
        assert bench.sweep() == 0
    assert bench.broker.sent == []
    assert bench.sweep() == 3
    assert driven(bench.store.set_aside()) == []


def test_after_the_last_refusal_a_record_is_set_aside_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(max_attempts=2)
    bench.store.add(made("1", "k"))
    bench.broker.failures["1"] = [PublishRefused("returned", code=312)] * 2
    for _ in range(3):
        bench.sweep()
        bench.now += 5
    assert bench.broker.sent == []
    ((row, error),) = driven(bench.store.set_aside())
    assert (row.record.id, error) == ("1", "returned")
    assert "outbox record 1 was refused 2 times and is set aside" in caplog.text


def test_outcomes_are_counted_with_their_lag() -> None:
    bench = Bench()
    bench.store.add_many([made("1"), made("2")])
    bench.broker.failures["2"] = [PublishRefused("returned", code=312)]
    bench.now += 30
    bench.sweep()
    labels = {"exchange": "events", "routing_key": "order.placed"}
    for outcome in ("confirmed", "refused"):
        assert bench.metrics.total("acemq.outbox.total", outcome=outcome, **labels) == 1
    lags = {name: lag for (name, _), lag in bench.metrics.durations.items()}
    assert lags == {"acemq.outbox.lag": [1, 30.0]}


def test_depth_and_the_oldest_s_age_are_told_now_and_then() -> None:
    bench = Bench()
    bench.store.add(made("1"))
    bench.broker.failures["1"] = [ConnectionLost("gone")]
    bench.now += 30
    bench.sweep()
    told = {name: value for (name, _), value in bench.metrics.gauges.items()}
    assert told == {
        "acemq.outbox.waiting": 1,
        "acemq.outbox.set.aside": 0,
        "acemq.outbox.oldest": 30.0,
    }


class Purged(InMemoryOutboxStore):
    """A store that has much to remove, a hundred at a time."""

    left = 250

    async def purge(self) -> int:
        removed = min(100, self.left)
        self.left -= removed
        return removed


def test_sweeps_keep_up_with_what_is_to_be_removed() -> None:
    store = Purged()
    bench = Bench(store)
    for _ in range(3):
        bench.sweep()
    assert store.left == 0


class Plain:
    """An outbox whose methods are plain functions, and may block."""

    def __init__(self) -> None:
        self._kept = InMemoryOutboxStore()
        self.lease = self._kept.lease
        self.add, self.add_many = self._kept.add, self._kept.add_many
        self.threads: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self.threads.add(threading.get_ident())
            return driven(getattr(self._kept, name)(*arguments))

        return call


def test_a_store_of_plain_functions_will_do() -> None:
    bench = Bench(Plain())
    bench.store.add(made("1"))
    assert (bench.sweep(), bench.sweep()) == (1, 0)


async def test_on_a_loop_they_are_called_in_threads() -> None:
    store = Plain()
    store.add(made("1"))
    assert await Bench(store).relay(TaskWork()).sweep() == 1
    assert store.threads and threading.get_ident() not in store.threads


class Asleep(InMemoryOutboxStore):
    """A store whose claims are as old as the relay's sleep was long."""

    left = 30.0

    async def claim(self, relay: str, most: int) -> Any:
        claimed = await super().claim(relay, most)
        return type(claimed)(claimed.rows, self.left)


@pytest.mark.parametrize("left", [-5.0, 0.0, 9.0])
def test_past_its_lease_or_near_its_end_a_relay_writes_nothing(left: float) -> None:
    store = Asleep()
    store.left = left
    bench = Bench(store)
    store.add(made("1"))
    assert bench.sweep() == 0
    assert bench.broker.sent == []


async def test_a_sweep_that_is_cancelled_begins_no_further_row_and_owes_its_mark() -> None:
    bench = Bench()
    bench.store.add_many([made("1", "k"), made("2", "k")])
    begun, confirmed = asyncio.Event(), asyncio.Event()
    hold = bench.broker.send

    async def slow(record: OutboxRecord) -> None:
        begun.set()
        await confirmed.wait()
        await hold(record)

    # this one broker is slow; its class stays as it is
    bench.broker.send = slow  # type: ignore[method-assign]
    relaying = bench.relay(TaskWork())
    cancelled = asyncio.create_task(relaying.sweep())
    await begun.wait()
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    others = asyncio.all_tasks() - {asyncio.current_task()}
    confirmed.set()
    await asyncio.wait(others)
    assert bench.broker.sent == ["1"]
    assert await relaying.sweep() == 1
    assert bench.broker.sent == ["1", "2"]


class Unrenewed(InMemoryOutboxStore):
    """A store of somebody's that fails in its own words when a lease is to be renewed."""

    async def renew(self, relay: str, rows: Any) -> bool:
        self.asked.set()
        raise LookupError("no such lease")

    asked: Any = None


async def test_a_renewal_that_fails_in_any_way_breaks_nothing_off() -> None:
    store = Unrenewed(lease=0.3)
    store.asked = asyncio.Event()
    bench = Bench(store)
    store.add(made("1"))
    hold = bench.broker.send

    async def slow(record: OutboxRecord) -> None:
        await store.asked.wait()
        await hold(record)

    # this one broker is slow; its class stays as it is
    bench.broker.send = slow  # type: ignore[method-assign]
    assert await bench.relay(TaskWork()).sweep() == 1
    assert bench.broker.sent == ["1"]


class Unmarking(InMemoryOutboxStore):
    """A store that cannot be reached when something is to be marked."""

    failing = True

    async def mark_published(self, relay: str, rows: Any) -> int:
        if self.failing:
            raise StoreError("acemq: gone")
        return await super().mark_published(relay, rows)


def test_what_could_not_be_marked_is_marked_later_and_not_sent_again() -> None:
    store = Unmarking()
    bench = Bench(store)
    store.add(made("1"))
    for _ in range(2):
        with pytest.raises(StoreError):
            bench.sweep()
    store.failing = False
    assert bench.sweep() == 0
    assert bench.broker.sent == ["1"]
    assert driven(store.status()).waiting == 0


def test_closing_marks_what_is_owed_and_gives_the_leases_back() -> None:
    store = Unmarking()
    bench = Bench(store)
    store.add_many([made("1"), made("2")])
    bench.broker.failures["2"] = [ConnectionLost("gone")]
    with pytest.raises(StoreError):
        bench.sweep()
    store.failing = False
    assert driven(bench.relaying.close(5)) is True
    other = bench.relay()
    assert driven(other.sweep()) == 1
    assert bench.broker.sent == ["1", "2"]
