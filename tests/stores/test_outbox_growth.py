"""An outbox over time: what was sent is removed, and meanwhile in nobody's way."""

from __future__ import annotations

import re
from contextlib import closing

import psycopg
import pytest

from acemq_stores.sql import statements as sql
from acemq_stores.sql.dialects import POSTGRESQL
from acemq_stores.sql.rendering import Rendering
from tests.stores import databases
from tests.stores.conftest import Call
from tests.stores.test_outbox import Outbox, Relay, made


def test_sent_rows_are_kept_then_purged_in_batches(database: str, call: Call) -> None:
    outbox = Outbox(database, keep_sent=3600)
    outbox.store.add_many([made(f"id-{n}") for n in range(5)])
    one = Relay(outbox, call, "one")
    one.publishes(one.claims())
    assert call(outbox.store.purge()) == 0
    databases.run(database, "UPDATE acemq_outbox SET settled = settled - 3601")
    assert [call(outbox.store.purge(2)) for _ in range(4)] == [2, 2, 1, 0]
    outbox.close()


def test_keep_sent_0_deletes_at_once(database: str, call: Call) -> None:
    outbox = Outbox(database, keep_sent=0)
    outbox.store.add_many([made("id-1"), made("id-2", "k")])
    one = Relay(outbox, call, "one")
    assert one.publishes(one.claims()) == 2
    assert databases.rows(database, "SELECT count(*) FROM acemq_outbox") == [(0,)]
    outbox.close()


def test_a_duplicate_of_a_sent_record_is_not_sent_again_while_it_is_kept(
    database: str, call: Call
) -> None:
    outbox = Outbox(database)
    one = Relay(outbox, call, "one")
    outbox.store.add(made("id-1"))
    one.publishes(one.claims())
    outbox.store.add(made("id-1"))
    assert one.claims() == []
    outbox.close()


@pytest.mark.server
def test_no_look_for_what_waits_or_was_set_aside_reads_the_sent_rows(
    postgres_database: str, call: Call
) -> None:
    outbox = Outbox(postgres_database)
    outbox.store.add(made("warm-up"))
    databases.run(
        postgres_database,
        "INSERT INTO acemq_outbox (id, exchange, routing_key, ordering_key, bucket, headers, body,"
        " created, state, settled) SELECT 'sent-' || n, '', 'q', 'k' || n % 100, n % 64, '', '', 0,"
        " 1, 0 FROM generate_series(1, 50000) n",
        "ANALYZE acemq_outbox",
    )
    rendering = Rendering(POSTGRESQL, "pyformat", "acemq_outbox")
    for statement in (sql.KEYED_ROWS, sql.CLAIM_KEYLESS, sql.STATUS, sql.SET_ASIDE):
        text, values = rendering.bound(
            statement, {"token": "one", "most": 100, "hold": 1, "lease": 30.0}
        )
        with closing(psycopg.connect(postgres_database)) as connection:
            plan = str(connection.execute(f"EXPLAIN {text}", values).fetchall())
        assert "acemq_outbox_" in plan
        assert not re.search(r"Seq Scan on acemq_outbox\b(?!_)", plan), plan
    assert Relay(outbox, call, "one").ids() == ["warm-up"]
    outbox.close()


def test_memory_keeps_nothing_of_keys_whose_records_are_sent(call: Call) -> None:
    outbox = Outbox(None)
    one = Relay(outbox, call, "one")
    for number in range(3000):
        outbox.store.add(made(f"id-{number}", f"key-{number}"))
        one.publishes(one.claims())
    assert len(outbox.store._leases) <= 1001
