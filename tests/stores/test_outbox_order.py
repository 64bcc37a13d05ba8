"""Eight processes write four keys at once: the order of numbers is the order of commits."""

from __future__ import annotations

from acemq_stores import create_schema
from tests.stores import databases
from tests.stores.programs import begin, together

WRITERS, ROWS, KEYS = 8, 60, 4


def test_id_order_is_commit_order_for_each_key(database: str) -> None:
    create_schema(database)
    databases.run(
        database,
        "CREATE TABLE counters (k text PRIMARY KEY, n integer NOT NULL)",
        "CREATE TABLE journal (k text, n integer, id text)",
        *(f"INSERT INTO counters VALUES ('key-{key}', 0)" for key in range(KEYS)),
    )
    wrote = together(begin("write", database, f"w{n}", ROWS, KEYS) for n in range(WRITERS))
    assert sum(wrote) == WRITERS * ROWS
    for key in (f"key-{number}" for number in range(KEYS)):
        committed = databases.rows(database, f"SELECT id FROM journal WHERE k = '{key}' ORDER BY n")
        numbered = databases.rows(
            database, f"SELECT id FROM acemq_outbox WHERE ordering_key = '{key}' ORDER BY seq"
        )
        assert numbered == committed and committed
