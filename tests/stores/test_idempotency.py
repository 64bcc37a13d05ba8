"""Claims on messages: one suite for the store in memory, SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acemq_amqp import ConfigurationError
from acemq_amqp.patterns import Claim, InMemoryIdempotencyStore
from acemq_stores import SqlIdempotencyStore, create_schema
from acemq_stores.sql.idempotency import stored_key
from tests.stores import databases
from tests.stores.conftest import Call

CLAIMED, DUPLICATE, IN_PROGRESS = Claim.CLAIMED, Claim.DUPLICATE, Claim.IN_PROGRESS


class Ledger:
    """A store, and a way to let time pass in it."""

    def __init__(self, database: str | None) -> None:
        self._database = database
        self.later = 0.0
        self.store: Any
        if database is None:
            self.store = InMemoryIdempotencyStore(
                claim_timeout=60, retention=3600, clock=lambda: self.later
            )
        else:
            self.store = SqlIdempotencyStore(database, claim_timeout=60, retention=3600)

    def pass_time(self, seconds: float) -> None:
        """What the store wrote down is so much older now."""
        self.later += seconds
        if self._database is not None:
            databases.run(self._database, f"UPDATE acemq_idempotency SET until = until - {seconds}")

    def close(self) -> None:
        if self._database is not None:
            self.store.close()


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgresql", marks=pytest.mark.server)])
def ledger(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Ledger]:
    address: str | None = None
    if request.param == "sqlite":
        address = f"sqlite:///{tmp_path}/ledger.db"
    elif request.param == "postgresql":
        address = request.getfixturevalue("postgres_database")
    ledger = Ledger(address)
    yield ledger
    ledger.close()


# ------------------------------------------------------------ claims


def test_one_claims_and_the_others_wait(ledger: Ledger, call: Call) -> None:
    store = ledger.store
    assert call(store.claim("order-1", "one")) is CLAIMED
    assert call(store.claim("order-1", "two")) is IN_PROGRESS
    assert call(store.claim("order-2", "two")) is CLAIMED


def test_what_was_confirmed_is_a_duplicate(ledger: Ledger, call: Call) -> None:
    store = ledger.store
    call(store.claim("order-1", "one"))
    assert call(store.confirm("order-1", "one")) is True
    assert call(store.claim("order-1", "two")) is DUPLICATE
    assert call(store.claim("order-1", "one")) is DUPLICATE


def test_what_was_given_up_can_be_claimed_at_once(ledger: Ledger, call: Call) -> None:
    store = ledger.store
    call(store.claim("order-1", "one"))
    call(store.forget("order-1", "one"))
    assert call(store.claim("order-1", "two")) is CLAIMED


def test_the_same_holder_may_ask_again_and_an_unnamed_one_may_not(
    ledger: Ledger, call: Call
) -> None:
    store = ledger.store
    assert [call(store.claim("named", "one")) for _ in range(2)] == [CLAIMED, CLAIMED]
    assert [call(store.claim("unnamed")) for _ in range(2)] == [CLAIMED, IN_PROGRESS]


def test_a_lease_ends_after_its_time_and_not_before(ledger: Ledger, call: Call) -> None:
    store = ledger.store
    call(store.claim("order-1", "one"))
    ledger.pass_time(50)
    assert call(store.claim("order-1", "two")) is IN_PROGRESS
    ledger.pass_time(11)
    assert call(store.claim("order-1", "two")) is CLAIMED


def test_an_overtaken_holder_changes_nothing(ledger: Ledger, call: Call) -> None:
    store = ledger.store
    call(store.claim("order-1", "one"))
    ledger.pass_time(61)
    call(store.claim("order-1", "two"))
    assert call(store.confirm("order-1", "one", b"stale")) is False
    assert call(store.renew("order-1", "one")) is False
    call(store.forget("order-1", "one"))
    assert call(store.claim("order-1", "three")) is IN_PROGRESS
    assert call(store.confirm("order-1", "two", b"fresh")) is True
    assert call(store.result("order-1")) == b"fresh"


def test_a_lapsed_lease_that_nobody_took_is_its_holders_still(ledger: Ledger, call: Call) -> None:
    store = ledger.store
    call(store.claim("order-1", "one"))
    ledger.pass_time(61)
    assert call(store.confirm("order-1", "one")) is True
    assert call(store.claim("order-1", "two")) is DUPLICATE


def test_renewing_begins_the_lease_anew(ledger: Ledger, call: Call) -> None:
    store = ledger.store
    call(store.claim("order-1", "one"))
    for _ in range(3):
        ledger.pass_time(50)
        assert call(store.renew("order-1", "one")) is True
    assert call(store.claim("order-1", "two")) is IN_PROGRESS
    assert call(store.renew("nothing", "one")) is False


def test_confirming_twice_is_confirming(ledger: Ledger, call: Call) -> None:
    store = ledger.store
    call(store.claim("order-1", "one"))
    assert [call(store.confirm("order-1", "one", b"x")) for _ in range(2)] == [True, True]
    assert call(store.renew("order-1", "one")) is False
    call(store.forget("order-1", "one"))
    assert call(store.claim("order-1", "two")) is DUPLICATE


def test_a_result_is_kept_with_what_was_confirmed(ledger: Ledger, call: Call) -> None:
    store = ledger.store
    assert call(store.result("order-1")) is None
    call(store.claim("order-1", "one"))
    assert call(store.result("order-1")) is None
    call(store.confirm("order-1", "one", b"\x00paid"))
    assert call(store.result("order-1")) == b"\x00paid"


# ------------------------------------------------------------ without leases


def test_first_time_is_true_once(ledger: Ledger, call: Call) -> None:
    store = ledger.store
    assert [call(store.first_time("order-1")) for _ in range(3)] == [True, False, False]
    call(store.forget("order-1"))
    assert call(store.first_time("order-1")) is True
    assert call(store.claim("order-1", "one")) is DUPLICATE


def test_first_time_heeds_a_claim(ledger: Ledger, call: Call) -> None:
    store = ledger.store
    call(store.claim("order-1", "one"))
    assert call(store.first_time("order-1")) is False


# ------------------------------------------------------------ remembering


def test_what_was_handled_is_remembered_for_the_retention(ledger: Ledger, call: Call) -> None:
    store = ledger.store
    call(store.claim("order-1", "one"))
    call(store.confirm("order-1", "one"))
    ledger.pass_time(3500)
    assert call(store.claim("order-1", "two")) is DUPLICATE
    assert call(store.purge()) == 0
    ledger.pass_time(101)
    assert call(store.purge()) == 1
    assert call(store.claim("order-1", "two")) is CLAIMED


def test_a_slow_holder_s_claim_outlives_its_lease_in_a_purge(ledger: Ledger, call: Call) -> None:
    store = ledger.store
    call(store.claim("order-1", "one"))
    ledger.pass_time(61)
    assert call(store.purge()) == 0
    assert call(store.confirm("order-1", "one")) is True
    call(store.claim("order-2", "one"))
    ledger.pass_time(3700)
    assert call(store.purge()) == 2


def test_a_purge_is_bounded(database: str, call: Call) -> None:
    store = SqlIdempotencyStore(database, retention=1)
    for number in range(5):
        call(store.first_time(str(number)))
    databases.run(database, "UPDATE acemq_idempotency SET until = until - 10")
    assert [call(store.purge(2)) for _ in range(4)] == [2, 2, 1, 0]
    store.close()


def test_claims_keep_up_with_what_is_to_be_removed(database: str, call: Call) -> None:
    create_schema(database)
    databases.run(database, lapsed_keys(2500))
    store = SqlIdempotencyStore(database)
    for number in range(3):
        call(store.claim(f"new-{number}", "one"))
    found = databases.rows(database, "SELECT key FROM acemq_idempotency ORDER BY key")
    assert found == [("new-0",), ("new-1",), ("new-2",)]
    store.close()


def lapsed_keys(count: int) -> str:
    """The statement that puts so many handled keys there which need not be remembered any more."""
    return (
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < "
        f"{count}) INSERT INTO acemq_idempotency (key, holder, done, until) "
        "SELECT 'old-' || n, '', 1, 1 FROM numbers"
    )


def test_a_result_past_the_limit_is_not_kept_and_counted(ledger: Ledger, call: Call) -> None:
    store = ledger.store
    for key, size in (("order-1", 65536), ("order-2", 65537)):
        call(store.claim(key, "one"))
        assert call(store.confirm(key, "one", bytes(size))) is True
    assert call(store.result("order-1")) == bytes(65536)
    assert (call(store.result("order-2")), store.results_not_kept) == (None, 1)


# ------------------------------------------------------------ keys


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.text(min_size=1), other=st.text(min_size=1))
def test_any_text_is_a_key_and_is_told_from_any_other(ledger: Ledger, key: str, other: str) -> None:
    from acemq_amqp.patterns.waiting import driven

    store = ledger.store
    driven(store.forget(key))
    driven(store.forget(other))
    assert driven(store.claim(key, "one")) is CLAIMED
    assert driven(store.claim(key, "two")) is IN_PROGRESS
    assert driven(store.claim(other, "two")) is (IN_PROGRESS if key == other else CLAIMED)


@pytest.mark.parametrize("key", ["x" * 5000, "nul\0", "lone \ud800", "sha256:" + "0" * 64])
def test_what_a_database_would_refuse_is_hashed(key: str) -> None:
    assert stored_key(key) != key
    assert stored_key(key).startswith("sha256:") and len(stored_key(key)) == 71


def test_an_everyday_key_is_stored_as_it_is() -> None:
    assert stored_key("orders:3f0c-77") == "orders:3f0c-77"


@pytest.mark.parametrize("options", [{"claim_timeout": 0}, {"retention": 0}, {"table": "x; drop"}])
def test_options_that_cannot_be_are_refused(options: dict[str, Any], tmp_path: Any) -> None:
    with pytest.raises(ConfigurationError):
        SqlIdempotencyStore(f"sqlite:///{tmp_path}/x.db", **options)
