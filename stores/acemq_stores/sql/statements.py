"""Every SQL statement of the stores, by name.

``{table}`` is the store's table, ``{now}`` the database's clock in seconds since the epoch, other
``{words}`` stand in the table of dialects. All are written for READ COMMITTED, and so that running
one again after a connection was lost does no harm.
"""

from __future__ import annotations

from typing import Final

from acemq_stores.sql.rendering import Statement

# ---------------------------------------------------------------- idempotency

_CLAIMING: Final = """
ON CONFLICT (key) DO UPDATE
    SET holder = excluded.holder, done = 0, until = excluded.until, result = NULL
    WHERE {table}.until <= {now}
        OR ({table}.done = 0 AND {table}.holder <> '' AND {table}.holder = excluded.holder)
RETURNING key"""

#: Takes the keys that nobody has, or whose lease has run out; gives no row for those of somebody.
#: Keys are taken in one order, so that two who take several do not wait for each other crosswise.
CLAIM: Final = Statement(
    "claim",
    f"""
INSERT INTO {{table}} (key, holder, done, until)
SELECT key, holder, 0, {{now}} + :lease
FROM json_to_recordset(CAST(:given AS json)) AS given (key text, holder text)
ORDER BY key{_CLAIMING}""",
    others={
        "sqlite": f"""
INSERT INTO {{table}} (key, holder, done, until)
SELECT json_extract(value, '$.key'), json_extract(value, '$.holder'), 0, {{now}} + :lease
FROM json_each(:given) WHERE true{_CLAIMING}"""
    },
)

#: Takes a key for good; gives no row where it is somebody's.
FIRST_TIME: Final = Statement(
    "first_time",
    """
INSERT INTO {table} (key, holder, done, until) VALUES (:key, '', 1, {now} + :retention)
ON CONFLICT (key) DO UPDATE
    SET holder = '', done = 1, until = excluded.until, result = NULL
    WHERE {table}.until <= {now}
RETURNING key""",
)

CLAIM_STATES: Final = Statement(
    "claim_states",
    "SELECT key, done FROM {table} WHERE key IN ({given_texts}) AND until > {now}",
)

#: A lapsed lease that nobody took over is still its holder's.
CONFIRM: Final = Statement(
    "confirm",
    """
WITH mine AS MATERIALIZED (
    SELECT entry.key FROM {table} entry
    JOIN json_to_recordset(CAST(:given AS json)) AS given (key text, holder text)
        ON entry.key = given.key AND entry.holder = given.holder
    ORDER BY entry.key FOR UPDATE OF entry
)
UPDATE {table} SET done = 1, until = {now} + :retention, result = NULL
WHERE key IN (SELECT key FROM mine)
RETURNING key, holder""",
    others={
        "sqlite": """
UPDATE {table} SET done = 1, until = {now} + :retention, result = NULL
WHERE (key, holder) IN (
    SELECT json_extract(value, '$.key'), json_extract(value, '$.holder') FROM json_each(:given)
)
RETURNING key, holder"""
    },
)

CONFIRM_WITH_RESULT: Final = Statement(
    "confirm_with_result",
    """
UPDATE {table} SET done = 1, until = {now} + :retention, result = :result
WHERE key = :key AND holder = :holder
RETURNING key, holder""",
)

RENEW: Final = Statement(
    "renew",
    """
UPDATE {table} SET until = {now} + :lease
WHERE key = :key AND holder = :holder AND done = 0""",
)

FORGET: Final = Statement("forget", "DELETE FROM {table} WHERE key = :key")

GIVE_UP: Final = Statement(
    "give_up", "DELETE FROM {table} WHERE key = :key AND holder = :holder AND done = 0"
)

RESULT: Final = Statement(
    "result", "SELECT result FROM {table} WHERE key = :key AND done = 1 AND until > {now}"
)

#: A lapsed claim is kept so long as well: its holder may be slow, and confirm it yet.
PURGE_KEYS: Final = Statement(
    "purge_keys",
    """
DELETE FROM {table} WHERE key IN (
    SELECT key FROM {table}
    WHERE until <= {now} AND (done = 1 OR until <= {now} - :retention)
    ORDER BY until LIMIT :most {skip_locked}
)""",
)

# ---------------------------------------------------------------- outbox: writing

#: Waits for the transactions that hold the key, and tells how this one is isolated.
LOCK_KEYS: Final = Statement(
    "lock_keys", "SELECT pg_advisory_xact_lock(value) FROM ({given}) AS given"
)
ISOLATION: Final = Statement("isolation", "SELECT current_setting('transaction_isolation')")

_ONE: Final = """
INSERT INTO {table} (id, exchange, routing_key, ordering_key, bucket, content_type, headers, body,
    created)
VALUES (:id, :exchange, :routing_key, :ordering_key, :bucket, :content_type, :headers, :body,
    {now})"""

ADD: Final = Statement("add", f"{_ONE}\nON CONFLICT (id) DO NOTHING")

#: Fails for an id that is there, shown by the snapshot or not, as it fails for nothing else.
ADD_NEW: Final = Statement("add_new", _ONE)

#: The same of many, in their order: JSON, with bytes in base64.
ADD_MANY: Final = Statement(
    "add_many",
    """
INSERT INTO {table} (id, exchange, routing_key, ordering_key, bucket, content_type, headers, body,
    created)
SELECT id, exchange, routing_key, ordering_key, bucket, content_type,
    decode(headers, 'base64'), decode(body, 'base64'), {now}
FROM json_to_recordset(CAST(:given AS json)) AS given (id text, exchange text, routing_key text,
    ordering_key text, bucket integer, content_type text, headers text, body text)
ON CONFLICT (id) DO NOTHING""",
)

SAVEPOINT: Final = Statement("savepoint", "SAVEPOINT acemq_outbox")
RELEASE_SAVEPOINT: Final = Statement("release_savepoint", "RELEASE SAVEPOINT acemq_outbox")
TO_SAVEPOINT: Final = Statement("to_savepoint", "ROLLBACK TO SAVEPOINT acemq_outbox")

#: Told by the commit, and by nothing where the transaction is undone.
NOTIFY: Final = Statement("notify", "SELECT pg_notify(:channel, '')")

# ---------------------------------------------------------------- outbox: relays' leases

RELAY_IS_HERE: Final = Statement(
    "relay_is_here",
    """
INSERT INTO {table}_relays (token, until) VALUES (:token, {now} + :lease)
ON CONFLICT (token) DO UPDATE SET until = excluded.until""",
)

RELAYS_GONE: Final = Statement(
    "relays_gone",
    """
DELETE FROM {table}_relays WHERE token IN (
    SELECT token FROM {table}_relays WHERE until <= {now} {skip_locked}
)""",
)

RELAY_LEAVES: Final = Statement("relay_leaves", "DELETE FROM {table}_relays WHERE token = :token")

RELAYS: Final = Statement("relays", "SELECT count(*) FROM {table}_relays WHERE until > {now}")

RENEW_BUCKETS: Final = Statement(
    "renew_buckets",
    """
UPDATE {table}_buckets SET until = {now} + :lease
WHERE token = :token AND until > {now}
RETURNING bucket""",
)

TAKE_BUCKETS: Final = Statement(
    "take_buckets",
    """
WITH free AS MATERIALIZED (
    SELECT bucket FROM {table}_buckets WHERE until <= {now}
    ORDER BY bucket LIMIT :most {skip_locked}
)
UPDATE {table}_buckets SET token = :token, until = {now} + :lease
WHERE bucket IN (SELECT bucket FROM free)
RETURNING bucket""",
)

GIVE_BUCKETS: Final = Statement(
    "give_buckets",
    """
UPDATE {table}_buckets SET token = '', until = 0
WHERE token = :token AND bucket IN ({given})""",
)

GIVE_ALL_BUCKETS: Final = Statement(
    "give_all_buckets",
    "UPDATE {table}_buckets SET token = '', until = 0 WHERE token = :token",
)

# ---------------------------------------------------------------- outbox: relaying

_COLUMNS: Final = (
    "seq, id, exchange, routing_key, ordering_key, content_type, headers, body, attempts, "
    "{now} - created"
)

#: A row waits for earlier ones of its key that failed and are not due, or that were set aside.
_NOT_HELD: Final = """NOT EXISTS (
        SELECT 1 FROM {table} earlier
        WHERE earlier.ordering_key = entry.ordering_key AND earlier.seq < entry.seq
            AND earlier.state <> 1 AND earlier.attempts > 0
            AND ((earlier.state = 2 AND :hold = 1) OR (earlier.state = 0 AND earlier.until > {now}))
    )"""

#: The oldest rows of the buckets that a relay holds, and of each bucket so many at most.
KEYED_ROWS: Final = Statement(
    "keyed_rows",
    f"""
SELECT {_COLUMNS} FROM {{table}}_buckets held
CROSS JOIN LATERAL (
    SELECT * FROM {{table}} entry
    WHERE entry.bucket = held.bucket AND entry.state = 0 AND entry.until <= {{now}} AND {_NOT_HELD}
    ORDER BY entry.seq LIMIT :most
) found
WHERE held.token = :token AND held.until > {{now}}
ORDER BY seq LIMIT :most""",
    others={
        "sqlite": f"""
SELECT {_COLUMNS} FROM {{table}} WHERE seq IN (
    SELECT entry.seq FROM {{table}}_buckets held CROSS JOIN {{table}} entry
    WHERE held.token = :token AND held.until > {{now}}
        AND entry.bucket = held.bucket AND entry.state = 0 AND entry.until <= {{now}}
        AND {_NOT_HELD}
    ORDER BY entry.seq LIMIT :most
) ORDER BY seq"""
    },
)

#: Rows without a key are leased one by one, past those that another relay is leasing now.
CLAIM_KEYLESS: Final = Statement(
    "claim_keyless",
    f"""
WITH free AS MATERIALIZED (
    SELECT seq AS number FROM {{table}}
    WHERE bucket = -1 AND state = 0 AND (until <= {{now}} OR token = :token)
    ORDER BY seq LIMIT :most {{skip_locked}}
)
UPDATE {{table}} SET token = :token, until = {{now}} + :lease
WHERE seq IN (SELECT number FROM free)
RETURNING {_COLUMNS}""",
)

RENEW_KEYLESS: Final = Statement(
    "renew_keyless",
    """
UPDATE {table} SET until = {now} + :lease
WHERE seq IN ({given}) AND bucket = -1 AND state = 0 AND token = :token""",
)

_MINE: Final = """state = 0 AND (
    (bucket = -1 AND token = :token)
    OR EXISTS (
        SELECT 1 FROM {table}_buckets held
        WHERE held.bucket = {table}.bucket AND held.token = :token
    )
)"""

MARK_SENT: Final = Statement(
    "mark_sent",
    f"""
UPDATE {{table}} SET state = 1, settled = {{now}}
WHERE seq IN ({{given}}) AND {_MINE}""",
)

DELETE_SENT: Final = Statement(
    "delete_sent", f"DELETE FROM {{table}} WHERE seq IN ({{given}}) AND {_MINE}"
)

#: One more attempt: set aside after the last, else due again after a while.
NOTE_FAILURE: Final = Statement(
    "note_failure",
    f"""
UPDATE {{table}} SET attempts = attempts + 1, error = :error, token = '', settled = {{now}},
    state = CASE WHEN attempts + 1 >= :most THEN 2 ELSE 0 END, until = {{now}} + :pause
WHERE seq = :seq AND {_MINE}
RETURNING state""",
)

FREE_KEYLESS: Final = Statement(
    "free_keyless",
    """
UPDATE {table} SET token = '', until = 0
WHERE seq IN ({given}) AND bucket = -1 AND state = 0 AND token = :token""",
)

# ---------------------------------------------------------------- outbox: looking after

#: Said so, the index of what was refused serves, and sent rows are passed by.
_ASIDE: Final = "state <> 1 AND attempts > 0 AND state = 2"
_FAILING: Final = "state <> 1 AND attempts > 0 AND state = 0"

STATUS: Final = Statement(
    "status",
    f"""
SELECT
    (SELECT count(*) FROM {{table}} WHERE state = 0),
    (SELECT count(*) FROM {{table}} WHERE {_ASIDE}),
    (SELECT {{now}} - min(created) FROM {{table}} WHERE state = 0),
    (SELECT count(*) FROM {{table}} WHERE {_FAILING}),
    (SELECT error FROM {{table}} WHERE {_FAILING}
        ORDER BY settled DESC, seq DESC LIMIT 1)""",
)

SET_ASIDE: Final = Statement(
    "set_aside",
    f"SELECT {_COLUMNS}, error FROM {{table}} WHERE {_ASIDE} ORDER BY seq LIMIT :most",
)

RELEASE: Final = Statement(
    "release",
    """
UPDATE {table} SET state = 0, attempts = 0, until = 0, error = ''
WHERE state = 2 AND seq IN ({given})""",
)

DROP: Final = Statement("drop", "DELETE FROM {table} WHERE state = 2 AND seq IN ({given})")

#: A page of the claim checks in records, sent, waiting and set aside, after the last one seen.
CLAIMED_BODIES: Final = Statement(
    "claimed_bodies",
    """
SELECT seq, body FROM {table} WHERE seq > :after AND substr(body, 1, 3) = :frame
ORDER BY seq LIMIT :most""",
)

PURGE_SENT: Final = Statement(
    "purge_sent",
    """
DELETE FROM {table} WHERE seq IN (
    SELECT seq FROM {table} WHERE state = 1 AND settled <= {now} - :keep
    ORDER BY settled LIMIT :most {skip_locked}
)""",
)

# ---------------------------------------------------------------- claim check

#: A key is new, so one that is there is this very payload, put before a connection was lost.
PUT_PAYLOAD: Final = Statement(
    "put_payload",
    """
INSERT INTO {table} (key, content, length, sha256, created)
VALUES (:key, :content, :length, :digest, {now})
ON CONFLICT (key) DO NOTHING""",
)

GET_PAYLOAD: Final = Statement(
    "get_payload", "SELECT content, sha256, length FROM {table} WHERE key = :key"
)

DELETE_PAYLOAD: Final = Statement("delete_payload", "DELETE FROM {table} WHERE key = :key")

#: A page of all keys, after the last one seen.
PAYLOAD_KEYS: Final = Statement(
    "payload_keys",
    "SELECT key, created FROM {table} WHERE key > :after ORDER BY key LIMIT :most",
)
