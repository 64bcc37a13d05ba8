"""The outbox: one suite for the store in memory, SQLite and PostgreSQL."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from acemq_amqp import ConfigurationError
from acemq_amqp.patterns import InMemoryOutboxStore, OutboxRecord, OutboxStore
from acemq_stores import SqlOutboxStore
from tests.stores import databases
from tests.stores.conftest import Call


def made(id_: str, key: str = "", **fields: Any) -> OutboxRecord:
    return OutboxRecord(id_, "events", "order.placed", b"{}", "application/json", b"", key)


class Outbox:
    """A store, and a way to let time pass in it."""

    def __init__(self, database: str | None, **options: Any) -> None:
        self._database = database
        self.later = 0.0
        self.store: Any
        if database is None:
            self.store = InMemoryOutboxStore(clock=lambda: self.later, **options)
        else:
            self.store = SqlOutboxStore(database, **options)

    def pass_time(self, seconds: float) -> None:
        """Leases and waits are so much older now; the store's own clocks go on as before."""
        self.later += seconds
        if self._database is not None:
            aged = f"SET until = until - {seconds}"
            databases.run(
                self._database,
                f"UPDATE acemq_outbox {aged}, created = created - {seconds}",
                f"UPDATE acemq_outbox_buckets {aged}",
                f"UPDATE acemq_outbox_relays {aged}",
            )
            # what it remembers of leases is as old
            for holding in self.store._leases._of.values():
                holding.renewed -= seconds

    def close(self) -> None:
        if self._database is not None:
            self.store.close()


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgresql", marks=pytest.mark.server)])
def address(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    if request.param == "memory":
        return None
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/outbox.db"
    return request.getfixturevalue("postgres_database")


@pytest.fixture
def outbox(address: str | None) -> Iterator[Outbox]:
    outbox = Outbox(address, max_attempts=3)
    yield outbox
    outbox.close()


@pytest.fixture
def skipping(address: str | None) -> Iterator[Outbox]:
    outbox = Outbox(address, max_attempts=1, on_set_aside="skip")
    yield outbox
    outbox.close()


class Relay:
    """What a relay asks of its store."""

    def __init__(self, outbox: Outbox, call: Call, name: str) -> None:
        self._store, self._call, self._name = outbox.store, call, name

    def claims(self, most: int = 100) -> list[Any]:
        return list(self._call(self._store.claim(self._name, most)).rows)

    def ids(self, most: int = 100) -> list[str]:
        return [row.record.id for row in self.claims(most)]

    def publishes(self, rows: Any) -> int:
        count: int = self._call(self._store.mark_published(self._name, rows))
        return count

    def fails(self, row: Any, error: str = "refused") -> bool:
        aside: bool = self._call(self._store.record_failure(self._name, row, error))
        return aside

    def leaves(self, rows: Any = ()) -> None:
        self._call(self._store.leave(self._name, rows))


# ------------------------------------------------------------ adding, claiming, marking


def test_what_is_added_is_claimed_as_it_was_in_order_and_marked_once(
    outbox: Outbox, call: Call
) -> None:
    record = OutboxRecord(
        "id-1", "events", "order.placed", b"\x00body\xff", "text/x", b"\x01h", "customer-7"
    )
    outbox.store.add_many([record, made("id-2", "customer-7"), made("id-3")])
    one = Relay(outbox, call, "one")
    rows = one.claims()
    assert rows[0].record == record
    assert [row.record.id for row in sorted(rows, key=lambda row: row.seq)] == [
        "id-1",
        "id-2",
        "id-3",
    ]
    assert one.publishes(rows) == 3
    assert one.publishes(rows) == 0
    assert one.claims() == []


def test_many_at_once_keep_their_order_and_their_bytes(outbox: Outbox, call: Call) -> None:
    bodies = [b"\x00\xff" * 300_000, b"", b"'%s\\", b"\x00\xff" * 300_000, "Größe 🐇".encode()]
    records = [
        OutboxRecord(f"id-{n}", "", f"q%{n}", body, "text/%s", bytes([n]) * n, f"key-{n % 2}")
        for n, body in enumerate(bodies)
    ]
    outbox.store.add_many([*records, records[0]])
    rows = sorted(Relay(outbox, call, "one").claims(), key=lambda row: row.seq)
    assert [row.record for row in rows] == records


def test_an_id_that_is_there_already_is_one_record(outbox: Outbox, call: Call) -> None:
    for _ in range(2):
        outbox.store.add(made("id-1", "k"))
    outbox.store.add_many([made("id-1"), made("id-2"), made("id-2")])
    assert sorted(Relay(outbox, call, "one").ids()) == ["id-1", "id-2"]


def test_a_claim_is_bounded_with_keys_and_without(outbox: Outbox, call: Call) -> None:
    for n in range(5):
        outbox.store.add_many([made(f"keyed-{n}", f"k{n}"), made(f"free-{n}")])
    ids = Relay(outbox, call, "one").ids(2)
    assert sorted(ids) == ["free-0", "free-1", "keyed-0", "keyed-1"]


def test_what_one_relay_holds_another_does_not_get(outbox: Outbox, call: Call) -> None:
    outbox.store.add_many([made(f"id-{n}", "k" if n % 2 else "") for n in range(6)])
    one, two = Relay(outbox, call, "one"), Relay(outbox, call, "two")
    assert len(one.ids()) == 6
    assert two.ids() == []
    assert len(one.ids()) == 6  # it may ask again


def test_after_the_lease_another_gets_it_and_the_first_changes_nothing(
    outbox: Outbox, call: Call
) -> None:
    outbox.store.add_many([made("keyed", "k"), made("free")])
    one, two = Relay(outbox, call, "one"), Relay(outbox, call, "two")
    held = one.claims()
    outbox.pass_time(29)
    assert two.ids() == []
    outbox.pass_time(2)
    assert sorted(two.ids()) == ["free", "keyed"]
    assert one.publishes(held) == 0
    assert one.fails(held[0]) is False
    assert call(outbox.store.renew("one", held)) is False
    assert two.publishes(two.claims()) == 2


def test_a_renewed_lease_holds(outbox: Outbox, call: Call) -> None:
    outbox.store.add_many([made("keyed", "k"), made("free")])
    one, two = Relay(outbox, call, "one"), Relay(outbox, call, "two")
    held = one.claims()
    for _ in range(3):
        outbox.pass_time(20)
        assert call(outbox.store.renew("one", held)) is True
    assert two.ids() == []
    assert one.publishes(held) == 2


def test_what_a_relay_leaves_another_gets_at_once(outbox: Outbox, call: Call) -> None:
    outbox.store.add_many([made("keyed", "k"), made("free")])
    one, two = Relay(outbox, call, "one"), Relay(outbox, call, "two")
    one.leaves(one.claims())
    assert sorted(two.ids()) == ["free", "keyed"]


# ------------------------------------------------------------ refusals


def test_a_refused_record_waits_longer_each_time_and_holds_its_key(
    outbox: Outbox, call: Call
) -> None:
    outbox.store.add_many([made("head", "k"), made("next", "k"), made("other", "j")])
    one = Relay(outbox, call, "one")
    head = one.claims()[0]
    assert one.fails(head) is False
    assert one.ids() == ["other"]
    outbox.pass_time(1.1)
    head = next(row for row in one.claims() if row.record.id == "head")
    assert head.attempts == 1
    assert one.fails(head) is False
    outbox.pass_time(1.1)
    assert one.ids() == ["other"]
    outbox.pass_time(1.1)
    assert one.ids() == ["head", "next", "other"]


def refuse_until_set_aside(outbox: Outbox, relay: Relay, id_: str) -> Any:
    for _ in itertools.count():
        row = next(row for row in relay.claims() if row.record.id == id_)
        if relay.fails(row, "no such queue"):
            return row
        outbox.pass_time(5)


def test_after_the_last_attempt_a_record_is_set_aside_and_holds_its_key_back(
    outbox: Outbox, call: Call
) -> None:
    outbox.store.add_many([made("head", "k"), made("next", "k"), made("free")])
    one = Relay(outbox, call, "one")
    refuse_until_set_aside(outbox, one, "head")
    outbox.pass_time(100)
    assert one.ids() == ["free"]
    ((row, error),) = call(outbox.store.set_aside())
    assert (row.record.id, row.attempts, error) == ("head", 3, "no such queue")
    assert call(outbox.store.status()).set_aside == 1


def test_a_released_record_is_sent_first_and_counts_anew(outbox: Outbox, call: Call) -> None:
    outbox.store.add_many([made("head", "k"), made("next", "k")])
    one = Relay(outbox, call, "one")
    row = refuse_until_set_aside(outbox, one, "head")
    assert call(outbox.store.release([row])) == 1
    assert call(outbox.store.release([row])) == 0
    assert [(row.record.id, row.attempts) for row in one.claims()] == [("head", 0), ("next", 0)]


def test_a_dropped_record_lets_its_key_go_on(outbox: Outbox, call: Call) -> None:
    outbox.store.add_many([made("head", "k"), made("next", "k")])
    one = Relay(outbox, call, "one")
    row = refuse_until_set_aside(outbox, one, "head")
    assert call(outbox.store.drop([row])) == 1
    assert one.ids() == ["next"]


def test_set_aside_rows_can_be_skipped(skipping: Outbox, call: Call) -> None:
    skipping.store.add_many([made("head", "k"), made("next", "k")])
    one = Relay(skipping, call, "one")
    refuse_until_set_aside(skipping, one, "head")
    assert one.ids() == ["next"]


def test_a_refused_record_without_a_key_holds_nobody(outbox: Outbox, call: Call) -> None:
    outbox.store.add_many([made("free-1"), made("free-2")])
    one = Relay(outbox, call, "one")
    one.fails(one.claims()[0])
    assert one.ids() == ["free-2"]


# ------------------------------------------------------------ looking after


def test_status_tells_depth_and_lag(outbox: Outbox, call: Call) -> None:
    empty = call(outbox.store.status())
    assert (empty.waiting, empty.set_aside, empty.lag) == (0, 0, 0.0)
    outbox.store.add(made("old"))
    outbox.pass_time(100)
    outbox.store.add(made("new"))
    status = call(outbox.store.status())
    assert status.waiting == 2 and 100 <= status.lag < 160
    one = Relay(outbox, call, "one")
    one.publishes([row for row in one.claims() if row.record.id == "old"])
    status = call(outbox.store.status())
    assert status.waiting == 1 and status.lag < 60


def test_status_tells_the_last_refusal(outbox: Outbox, call: Call) -> None:
    outbox.store.add_many([made("often", "a"), made("once", "b")])
    one = Relay(outbox, call, "one")
    rows = {row.record.id: row for row in one.claims()}
    one.fails(rows["often"], "first")
    outbox.pass_time(2)
    one.fails(
        next(row for row in one.claims() if row.record.id == "often"), "second, and waits 2 s"
    )
    one.fails(rows["once"], "third, and waits 1 s")
    assert call(outbox.store.status()).error == "third, and waits 1 s"


# ------------------------------------------------------------ sharing


def test_relays_share_the_buckets_evenly_and_take_over_what_is_left(
    database: str, call: Call
) -> None:
    outbox = Outbox(database)
    outbox.store.add_many([made(f"id-{n}", f"k{n}") for n in range(200)])
    relays = [Relay(outbox, call, name) for name in ("one", "two", "three")]
    assert len(relays[0].ids(500)) == 200
    for _ in range(3):  # each says that it is there, and gives back what is beyond its part
        for relay in relays:
            relay.ids()
        outbox.pass_time(11)
    held = databases.rows(
        database, "SELECT count(*) FROM acemq_outbox_buckets WHERE token <> '' GROUP BY token"
    )
    assert sorted(count for (count,) in held) == [20, 22, 22]
    parts = [set(relay.ids(500)) for relay in relays]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 200
    relays[0].leaves()
    relays[1].leaves()
    outbox.pass_time(11)
    assert len(relays[2].ids(500)) == 200
    outbox.close()


# ------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    "options",
    [{"max_attempts": 0}, {"on_set_aside": "drop"}, {"keep_sent": -1}, {"table": "a b"}],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], tmp_path: Any) -> None:
    with pytest.raises(ConfigurationError):
        SqlOutboxStore(f"sqlite:///{tmp_path}/x.db", **options)


def test_what_is_no_record_is_refused(database: str) -> None:
    outbox = Outbox(database)
    with pytest.raises(ConfigurationError, match="make one with record"):
        outbox.store.add({"id": 1})
    outbox.close()


def test_memory_is_no_part_of_a_transaction() -> None:
    with pytest.raises(ConfigurationError, match="SqlOutboxStore"):
        InMemoryOutboxStore().add(made("id"), connection=object())


def test_both_are_outbox_stores(tmp_path: Any) -> None:
    assert isinstance(InMemoryOutboxStore(), OutboxStore)
    assert isinstance(SqlOutboxStore(f"sqlite:///{tmp_path}/x.db"), OutboxStore)
