"""The SQL statements of the event log's store, by name: places, lanes, what was seen.

They are written as those of ``statements``; those of windows stand in ``window_statements``.

What comes in numbers, such as a batch's windows, comes as JSON in one parameter and is unpacked by
the database, so that a batch of any size is a handful of statements.
"""

from __future__ import annotations

from typing import Final

from acemq_stores.sql.rendering import Statement


def over(name: str, text: str, **columns: str) -> Statement:
    """A statement in which ``{rows}`` are the JSON objects in ``:rows``, as ``given``."""
    typed = ", ".join(f"{column} {kind}" for column, kind in columns.items())
    taken = ", ".join(f"json_extract(value, '$.{column}') AS {column}" for column in columns)
    return Statement(
        name,
        text.replace("{rows}", f"json_to_recordset(CAST(:rows AS json)) AS given ({typed})"),
        others={
            "sqlite": text.replace("{rows}", f"(SELECT {taken} FROM json_each(:rows)) AS given")
        },
    )


# ---------------------------------------------------------------- places

_PLACE: Final = """
SELECT number, epoch, next, anchor, holder, CASE WHEN until > {now} THEN 1 ELSE 0 END, stamp,
    EXISTS (SELECT 1 FROM {table}_lanes l WHERE l.place = {table}.number)
FROM {table} WHERE group_name = :group AND stream = :stream """

#: A group's place in a stream, until the transaction ends its own alone.
LOCK_PLACE: Final = Statement("lock_place", _PLACE + "{locked}")

#: The same, and others may share it: nobody takes the stream, or seeks, before it ends.
SHARE_PLACE: Final = Statement("share_place", _PLACE + "{shared}")

_POSITION: Final = """
SELECT p.group_name, p.stream, p.epoch, p.next, p.anchor, p.unfinished, p.attempts,
    CASE WHEN p.until > {now} THEN p.holder ELSE '' END,
    l.lane, l.next, l.attempts, CASE WHEN l.until > {now} THEN l.token ELSE '' END
FROM {table} p LEFT JOIN {table}_lanes l ON l.place = p.number
WHERE """

POSITION: Final = Statement("position", _POSITION + "p.group_name = :group AND p.stream = :stream")

POSITIONS: Final = Statement("positions", _POSITION + "p.stream IN ({given_text})")

CREATE_PLACE: Final = Statement(
    "create_place",
    """
INSERT INTO {table} (group_name, stream, epoch, next, anchor)
VALUES (:group, :stream, 0, :next, :anchor)
ON CONFLICT (group_name, stream) DO NOTHING RETURNING number""",
)

#: Numbers are given once, so that no epoch is that of a group that was deleted before.
FIRST_EPOCH: Final = Statement(
    "first_epoch", "UPDATE {table} SET epoch = number * 4294967296 WHERE number = :number"
)

HOLD: Final = Statement(
    "hold",
    """
UPDATE {table} SET epoch = epoch + 1, holder = :holder, until = {now} + :lease
WHERE number = :number
    AND NOT EXISTS (SELECT 1 FROM {table}_lanes l WHERE l.place = :number AND l.until > {now})""",
)

#: A hold that lapsed and that nobody took is still its holder's.
RENEW_HOLDS: Final = over(
    "renew_holds",
    """
UPDATE {table} SET until = {now} + :lease
FROM {rows}
WHERE group_name = given.of_group AND stream = given.of_stream AND epoch = given.of_epoch
    AND holder = :holder
RETURNING group_name, stream, epoch""",
    of_group="text",
    of_stream="text",
    of_epoch="bigint",
)

RELEASE_HOLD: Final = Statement(
    "release_hold",
    """
UPDATE {table} SET holder = '', until = 0
WHERE group_name = :group AND stream = :stream AND epoch = :epoch AND holder = :holder""",
)

END_HOLD: Final = Statement(
    "end_hold", "UPDATE {table} SET holder = '', until = 0 WHERE number = :number"
)

COMMIT_PLACE: Final = Statement(
    "commit_place",
    """
UPDATE {table} SET next = :next, anchor = :anchor, unfinished = :begun, attempts = :attempts,
    until = {now} + :lease, stamp = :stamp
WHERE number = :number""",
)

ADVANCE_PLACE: Final = Statement(
    "advance_place",
    "UPDATE {table} SET next = :next, anchor = :anchor, attempts = 0 WHERE number = :number",
)

SEEK_PLACE: Final = Statement(
    "seek_place",
    """
UPDATE {table} SET epoch = epoch + 1, next = :next, anchor = :anchor, unfinished = 0, attempts = 0,
    holder = '', until = 0
WHERE number = :number""",
)

LOCK_GROUP: Final = Statement(
    "lock_group",
    """
SELECT number FROM {table} WHERE group_name = :group AND stream IN ({given_text})
ORDER BY number {locked}""",
)

LOCK_STREAMS: Final = Statement(
    "lock_streams",
    "SELECT number FROM {table} WHERE stream IN ({given_text}) ORDER BY number {locked}",
)

DELETE_PLACES: Final = Statement("delete_places", "DELETE FROM {table} WHERE number IN ({given})")

# ---------------------------------------------------------------- lanes

#: A lane without a row stands where the caller says, which is not below the watermark. Where a
#: call whose answer was lost is done again, what it leased is its own.
LEASE_LANES: Final = over(
    "lease_lanes",
    """
INSERT INTO {table}_lanes (place, lane, next, attempts, token, until)
SELECT CAST(:place AS bigint), given.lane, given.next, 1, CAST(:token AS text), {now} + :lease
FROM {rows}
WHERE given.next >= :watermark
    OR EXISTS (SELECT 1 FROM {table}_lanes l WHERE l.place = :place AND l.lane = given.lane)
ON CONFLICT (place, lane) DO UPDATE
    SET attempts = {table}_lanes.attempts
            + CASE WHEN {table}_lanes.until <= {now} THEN 1 ELSE 0 END,
        token = excluded.token, until = excluded.until
    WHERE ({table}_lanes.until <= {now}
            OR (CAST(:again AS integer) = 1 AND {table}_lanes.token = excluded.token))
        AND {table}_lanes.next = excluded.next
RETURNING lane, next, attempts""",
    lane="text",
    next="bigint",
)

RENEW_LANES: Final = Statement(
    "renew_lanes",
    """
UPDATE {table}_lanes SET until = {now} + :lease
WHERE place = :place AND token = :token AND lane IN ({given_text})
RETURNING lane""",
)

LOCK_LANES: Final = Statement(
    "lock_lanes",
    """
SELECT lane FROM {table}_lanes
WHERE place = :place AND token = :token AND lane IN ({given_text}) {locked}""",
)

MOVE_LANES: Final = over(
    "move_lanes",
    """
UPDATE {table}_lanes SET next = given.onto, attempts = given.attempts
FROM {rows}
WHERE place = :place AND lane = given.of_lane AND next < given.onto""",
    of_lane="text",
    onto="bigint",
    attempts="bigint",
)

FREE_LANES: Final = Statement(
    "free_lanes",
    """
UPDATE {table}_lanes SET token = '', until = 0
WHERE place = :place AND lane IN ({given_text})""",
)

#: Lanes that a holder has read up to the watermark, or beyond.
DROP_LANES: Final = Statement(
    "drop_lanes", "DELETE FROM {table}_lanes WHERE place = :place AND next <= :upto"
)

#: Lanes below the watermark, which the holder is reading again.
BRING_LANES: Final = Statement(
    "bring_lanes",
    "UPDATE {table}_lanes SET next = :upto, attempts = 0 WHERE place = :place AND next < :upto",
)

#: A lane whose message was begun and not settled has that message still before it.
CARRY_LANES: Final = Statement(
    "carry_lanes",
    """
UPDATE {table}_lanes SET next = :upto
WHERE place = :place AND until <= {now} AND attempts > 0 AND next >= :before AND next < :upto""",
)

PASS_LANES: Final = Statement(
    "pass_lanes",
    """
DELETE FROM {table}_lanes
WHERE place = :place AND until <= {now} AND attempts = 0 AND next >= :before AND next <= :upto""",
)

END_LEASES: Final = Statement(
    "end_leases",
    "UPDATE {table}_lanes SET token = '', until = 0, attempts = 0 WHERE place = :place",
)

PUT_LANE: Final = Statement(
    "put_lane",
    """
INSERT INTO {table}_lanes (place, lane, next) VALUES (:place, :lane, :next)
ON CONFLICT (place, lane) DO UPDATE SET next = excluded.next""",
)

DELETE_LANES: Final = Statement(
    "delete_lanes", "DELETE FROM {table}_lanes WHERE place IN ({given})"
)

# ---------------------------------------------------------------- output seen before

NOTE_SEEN: Final = Statement(
    "note_seen",
    """
INSERT INTO {table}_seen (group_name, id, stream, at)
SELECT CAST(:group AS text), value, CAST(:stream AS text), {now}
FROM ({given_text}) AS given WHERE true
ON CONFLICT (group_name, id) DO UPDATE SET at = excluded.at, stream = excluded.stream""",
)

SEEN: Final = Statement(
    "seen",
    """
SELECT id FROM {table}_seen
WHERE group_name = :group AND id IN ({given_text}) AND at > {now} - :kept""",
)

FORGET_SEEN: Final = Statement(
    "forget_seen",
    "DELETE FROM {table}_seen WHERE group_name = :group AND stream IN ({given_text})",
)

FORGET_SEEN_IN_STREAMS: Final = Statement(
    "forget_seen_in_streams", "DELETE FROM {table}_seen WHERE stream IN ({given_text})"
)

PURGE_SEEN: Final = Statement(
    "purge_seen",
    """
DELETE FROM {table}_seen WHERE (group_name, id) IN (
    SELECT group_name, id FROM {table}_seen WHERE at <= {now} - :kept
    ORDER BY at LIMIT :most {skip_locked}
)""",
)
