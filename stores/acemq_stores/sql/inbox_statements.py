"""The SQL statements of the inbox, which share a table with those of idempotency."""

from __future__ import annotations

from typing import Final

from acemq_stores.sql.rendering import Statement

#: A claim that lapses at once: committed too early, it keeps nobody out. On PostgreSQL its holder
#: is the transaction.
OPEN_CLAIM: Final = Statement(
    "open_claim",
    """
INSERT INTO {table} (key, holder, done, until)
VALUES (:key, CAST(txid_current() AS text), 0, 0)
ON CONFLICT (key) DO UPDATE
    SET holder = excluded.holder, done = 0, until = 0, result = NULL
    WHERE {table}.until <= {now}
RETURNING key""",
    others={
        "sqlite": """
INSERT INTO {table} (key, holder, done, until) VALUES (:key, '', 0, 0)
ON CONFLICT (key) DO UPDATE SET holder = '', done = 0, until = 0, result = NULL
    WHERE {table}.until <= {now}
RETURNING key"""
    },
)

#: Of a key that could not be claimed.
STATE: Final = Statement("inbox_state", "SELECT done, result FROM {table} WHERE key = :key")

#: Gives no row where the transaction is another one by now.
CLOSE_CLAIM: Final = Statement(
    "close_claim",
    """
UPDATE {table} SET done = 1, holder = '', until = {now} + :retention, result = :result
WHERE key = :key AND done = 0 AND holder = CAST(txid_current() AS text)
RETURNING key""",
    others={
        "sqlite": """
UPDATE {table} SET done = 1, until = {now} + :retention, result = :result
WHERE key = :key AND done = 0 AND holder = ''
RETURNING key"""
    },
)

#: SQLite numbers no transactions; a savepoint is gone with the one it was set in.
OPEN_MARK: Final = Statement("open_mark", "SAVEPOINT acemq_inbox")
CLOSE_MARK: Final = Statement("close_mark", "RELEASE SAVEPOINT acemq_inbox")

#: Until the transaction ends, and without waiting for another one's end.
TRY_LOCK: Final = Statement("try_lock", "SELECT pg_try_advisory_xact_lock(:lock)")

#: Ends a session whose handler died with its transaction open.
LIMIT_IDLE: Final = Statement(
    "limit_idle", "SELECT set_config('idle_in_transaction_session_timeout', :limit, true)"
)
