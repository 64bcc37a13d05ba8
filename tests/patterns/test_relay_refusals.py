"""A relay tells what it cannot send, and holds nothing between sweeps that are called by hand."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from acemq_amqp import ConfigurationError, PublishRefused, StoreError
from acemq_amqp.patterns import InMemoryOutboxStore
from acemq_amqp.patterns.relaying import is_told
from acemq_amqp.patterns.waiting import driven
from acemq_stores import SqlOutboxStore
from tests.patterns.test_relaying import Bench, Unmarking, made


def refused() -> PublishRefused:
    return PublishRefused("acemq: no queue took message '1'", code=312)


def test_a_refusal_is_told_at_once_with_where_why_and_when(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    bench.store.add(made("1"))
    bench.broker.failures["1"] = [refused()] * 2
    with caplog.at_level(logging.WARNING, "acemq_amqp"):
        bench.sweep()
        (told,) = [each.getMessage() for each in caplog.records]
        for words in ("record 1 ", "'events'", "'order.placed'", "no queue took", "in about 1 s"):
            assert words in told
        bench.now += 1.1
        bench.sweep()
        assert "in about 2 s" in caplog.records[-1].getMessage()


def test_it_is_told_of_one_record_at_growing_intervals() -> None:
    assert [attempt for attempt in range(1, 70) if is_told(attempt)] == [1, 2, 4, 8, 16, 32, 64]


@pytest.fixture(params=["memory", "sqlite"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    if request.param == "memory":
        return InMemoryOutboxStore()
    return SqlOutboxStore(f"sqlite:///{tmp_path}/x.db")


def test_the_status_counts_records_that_were_refused(stores: SqlOutboxStore) -> None:
    bench = Bench(stores)
    stores.add_many([made("1"), made("2", "k"), made("3")])
    bench.broker.failures = {"1": [refused()]}
    assert bench.sweep() == 2
    status = driven(stores.status())
    assert (status.waiting, status.failing) == (1, 1)
    assert "no queue took message" in status.error


def test_after_a_sweep_by_hand_another_relay_need_not_wait(stores: SqlOutboxStore) -> None:
    bench = Bench(stores)
    stores.add(made("1", "k"))
    assert bench.sweep() == 1
    stores.add_many([made("2", "k"), made("3")])
    assert driven(bench.relay().sweep()) == 2


def test_what_is_not_marked_yet_stays_the_relay_s_own() -> None:
    store = Unmarking()
    bench = Bench(store)
    store.add(made("1"))
    with pytest.raises(StoreError):
        bench.sweep()
    assert driven(bench.relay().sweep()) == 0


def test_a_closed_relay_neither_sweeps_nor_starts() -> None:
    bench = Bench()
    driven(bench.relaying.close(5))
    with pytest.raises(ConfigurationError, match="this outbox relay is closed"):
        bench.sweep()
    with pytest.raises(ConfigurationError, match="this outbox relay is closed"):
        bench.relaying.start()
