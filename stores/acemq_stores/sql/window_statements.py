"""The SQL statements of the event log's store, by name: queries, windows, watermarks.

What a batch touches is looked up in an index and written by one statement, so that a cycle costs
the same beside any number of open windows.
"""

from __future__ import annotations

from typing import Final

from acemq_stores.sql.log_statements import over
from acemq_stores.sql.rendering import Statement

# ---------------------------------------------------------------- queries

ADD_QUERY: Final = Statement(
    "add_query",
    """
INSERT INTO {table}_queries (id, generation, shape) VALUES (:query, 1, :shape)
ON CONFLICT (id) DO NOTHING RETURNING number""",
)

LOCK_QUERY: Final = Statement(
    "lock_query",
    "SELECT number, generation, shape FROM {table}_queries WHERE id = :query {locked}",
)

#: Nobody resets it before the transaction ends.
SHARE_QUERY: Final = Statement(
    "share_query",
    """
SELECT number FROM {table}_queries WHERE id = :query AND generation = :generation {shared}""",
)

RESET_QUERY: Final = Statement(
    "reset_query",
    """
UPDATE {table}_queries SET generation = :generation, shape = :shape WHERE number = :number""",
)

CLEAR_WINDOWS: Final = Statement(
    "clear_windows", "DELETE FROM {table}_windows WHERE query = :number"
)

CLEAR_WATERMARKS: Final = Statement(
    "clear_watermarks", "DELETE FROM {table}_watermarks WHERE query = :number"
)

#: Those that kept anything of these streams.
RAISE_QUERIES_OF_STREAMS: Final = Statement(
    "raise_queries_of_streams",
    """
UPDATE {table}_queries SET generation = generation + 1 WHERE number IN (
    SELECT query FROM {table}_windows WHERE stream IN ({given_text})
    UNION SELECT query FROM {table}_watermarks WHERE stream IN ({given_text}))""",
)

DELETE_WINDOWS_OF_STREAMS: Final = Statement(
    "delete_windows_of_streams", "DELETE FROM {table}_windows WHERE stream IN ({given_text})"
)

DELETE_WATERMARKS_OF_STREAMS: Final = Statement(
    "delete_watermarks_of_streams", "DELETE FROM {table}_watermarks WHERE stream IN ({given_text})"
)

# ---------------------------------------------------------------- windows

_WINDOW: Final = "lane, key, starts, ends, closes, revision, state"

#: The number of a query; NULL where that generation has been passed.
_QUERY: Final = (
    "(SELECT q.number FROM {table}_queries q WHERE q.id = :query AND q.generation = :generation)"
)

WRITE_WINDOWS: Final = over(
    "write_windows",
    f"""
INSERT INTO {{table}}_windows (query, stream, {_WINDOW})
SELECT CAST(:number AS bigint), CAST(:stream AS text), {_WINDOW} FROM {{rows}} WHERE true
ON CONFLICT (query, stream, lane, key, starts) DO UPDATE
    SET ends = excluded.ends, closes = excluded.closes, revision = excluded.revision,
        state = excluded.state""",
    lane="text",
    key="text",
    starts="double precision",
    ends="double precision",
    closes="double precision",
    revision="integer",
    state="text",
)

# Each key is looked up in the index, however many windows there are: LATERAL with OFFSET, and
# SQLite's CROSS JOIN, leave the planner no other way.
REMOVE_WINDOWS: Final = Statement(
    "remove_windows",
    """
DELETE FROM {table}_windows WHERE ctid = ANY (ARRAY (
    SELECT found.ctid FROM json_to_recordset(CAST(:rows AS json))
        AS given (lane text, key text, starts double precision)
    CROSS JOIN LATERAL (
        SELECT w.ctid FROM {table}_windows w
        WHERE w.query = :number AND w.stream = :stream
            AND w.lane = given.lane AND w.key = given.key AND w.starts = given.starts
        OFFSET 0
    ) AS found
))""",
    others={
        "sqlite": """
DELETE FROM {table}_windows WHERE rowid IN (
    SELECT w.rowid FROM (
        SELECT json_extract(value, '$.lane') AS of_lane, json_extract(value, '$.key') AS of_key,
            json_extract(value, '$.starts') AS of_start
        FROM json_each(:rows)
    ) AS given CROSS JOIN {table}_windows w
    WHERE w.query = :number AND w.stream = :stream
        AND w.lane = given.of_lane AND w.key = given.of_key AND w.starts = given.of_start
)"""
    },
)

FIND_WINDOWS: Final = Statement(
    "find_windows",
    f"""
SELECT found.* FROM json_to_recordset(CAST(:rows AS json)) AS given (lane text, key text)
CROSS JOIN LATERAL (
    SELECT {_WINDOW} FROM {{table}}_windows w
    WHERE w.query = {_QUERY} AND w.stream = :stream
        AND w.lane = given.lane AND w.key = given.key
    OFFSET 0
) AS found""",
    others={
        "sqlite": f"""
SELECT {_WINDOW} FROM (
    SELECT json_extract(value, '$.lane') AS of_lane, json_extract(value, '$.key') AS of_key
    FROM json_each(:rows)
) AS given CROSS JOIN {{table}}_windows w
WHERE w.query = {_QUERY} AND w.stream = :stream
    AND w.lane = given.of_lane AND w.key = given.of_key"""
    },
)

RIPE: Final = Statement(
    "ripe",
    f"""
SELECT {_WINDOW} FROM {{table}}_windows w
WHERE w.query = {_QUERY} AND w.stream = :stream AND w.closes + 0 <= :upto
ORDER BY w.closes + 0 LIMIT :most""",
)

#: Of each lane up to a moment of its own.
RIPE_IN_LANES: Final = Statement(
    "ripe_in_lanes",
    f"""
SELECT found.* FROM json_to_recordset(CAST(:rows AS json)) AS given (lane text, upto float8)
CROSS JOIN LATERAL (
    SELECT {_WINDOW} FROM {{table}}_windows w
    WHERE w.query = {_QUERY} AND w.stream = :stream
        AND w.lane = given.lane AND w.closes <= given.upto
    ORDER BY w.closes LIMIT :most
) AS found
ORDER BY closes LIMIT :most""",
    others={
        "sqlite": f"""
SELECT {_WINDOW} FROM (
    SELECT json_extract(value, '$.lane') AS of_lane, json_extract(value, '$.upto') AS upto
    FROM json_each(:rows)
) AS given CROSS JOIN {{table}}_windows w
WHERE w.query = {_QUERY} AND w.stream = :stream
    AND w.lane = given.of_lane AND w.closes <= given.upto
ORDER BY w.closes LIMIT :most"""
    },
)

OPEN_WINDOWS: Final = Statement(
    "open_windows", f"SELECT count(*) FROM {{table}}_windows w WHERE w.query = {_QUERY}"
)

# ---------------------------------------------------------------- watermarks

#: They never go back.
NOTE_WATERMARKS: Final = over(
    "note_watermarks",
    """
INSERT INTO {table}_watermarks (query, stream, lane, moment)
SELECT CAST(:number AS bigint), CAST(:stream AS text), given.lane, given.moment
FROM {rows} WHERE true
ON CONFLICT (query, stream, lane) DO UPDATE SET moment = excluded.moment
    WHERE {table}_watermarks.moment < excluded.moment""",
    lane="text",
    moment="double precision",
)

WATERMARKS: Final = Statement(
    "watermarks",
    f"""
SELECT w.lane, w.moment FROM {{table}}_watermarks w
WHERE w.query = {_QUERY} AND w.stream = :stream""",
)

#: The stream's own, under no lane's name, stays.
FORGET_LANES: Final = Statement(
    "forget_lanes",
    f"""
DELETE FROM {{table}}_watermarks
WHERE query = {_QUERY} AND stream = :stream AND lane <> '' AND moment < :before
    AND NOT EXISTS (
        SELECT 1 FROM {{table}}_windows w
        WHERE w.query = {{table}}_watermarks.query AND w.stream = :stream
            AND w.lane = {{table}}_watermarks.lane
    )""",
)
