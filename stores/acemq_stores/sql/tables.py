"""The tables of the stores: their DDL, version by version.

A store's table comes to its newest version by the steps it has not had yet. A step, once released,
never changes: what is to be different is a further step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: The table that says which version each table has.
VERSIONS: Final = "acemq_schema"

VERSIONS_DDL: Final = f"""
CREATE TABLE IF NOT EXISTS {VERSIONS} (
    name text PRIMARY KEY,
    kind text NOT NULL,
    version integer NOT NULL
)"""

#: Leases are given out for so many shares of the ordering keys.
BUCKETS: Final = 64


@dataclass(frozen=True, slots=True)
class Kind:
    """One store's tables.

    :ivar table: the name that its table has by default
    :ivar steps: statements from each version to the next, from none to the first
    """

    name: str
    table: str
    steps: tuple[tuple[str, ...], ...]

    @property
    def version(self) -> int:
        """The newest version."""
        return len(self.steps)


IDEMPOTENCY: Final = Kind(
    "idempotency",
    "acemq_idempotency",
    (
        (
            """
CREATE TABLE {table} (
    key text PRIMARY KEY,
    holder text NOT NULL,
    done integer NOT NULL,
    until {moment} NOT NULL,
    result {bytes}
){fillfactor}""",
            """
CREATE INDEX {bare}_until ON {table} (until)""",
        ),
    ),
)

OUTBOX: Final = Kind(
    "outbox",
    "acemq_outbox",
    (
        (
            # state: 0 waits, 1 sent, 2 set aside; bucket: -1 where there is no ordering key
            """
CREATE TABLE {table} (
    seq {serial},
    id text NOT NULL UNIQUE,
    exchange text NOT NULL,
    routing_key text NOT NULL,
    ordering_key text NOT NULL,
    bucket integer NOT NULL,
    content_type text,
    headers {bytes} NOT NULL,
    body {bytes} NOT NULL,
    created {moment} NOT NULL,
    state integer NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    error text NOT NULL DEFAULT '',
    token text NOT NULL DEFAULT '',
    until {moment} NOT NULL DEFAULT 0,
    settled {moment}
){fillfactor}""",
            """
CREATE INDEX {bare}_waiting ON {table} (bucket, seq) WHERE state = 0""",
            """
CREATE INDEX {bare}_failed ON {table} (ordering_key, seq) WHERE state <> 1 AND attempts > 0""",
            """
CREATE INDEX {bare}_sent ON {table} (settled) WHERE state = 1""",
            """
CREATE TABLE {table}_buckets (
    bucket integer PRIMARY KEY,
    token text NOT NULL DEFAULT '',
    until {moment} NOT NULL DEFAULT 0
){fillfactor}""",
            f"""
INSERT INTO {{table}}_buckets (bucket)
WITH RECURSIVE numbers (number) AS (
    SELECT 0 UNION ALL SELECT number + 1 FROM numbers WHERE number < {BUCKETS - 1}
)
SELECT number FROM numbers""",
            """
CREATE TABLE {table}_relays (
    token text PRIMARY KEY,
    until {moment} NOT NULL
){fillfactor}""",
        ),
    ),
)

CLAIM_CHECK: Final = Kind(
    "claim_check",
    "acemq_claim_check",
    (
        (
            # written once and never changed, so no room is left on its pages
            """
CREATE TABLE {table} (
    key text PRIMARY KEY,
    content {bytes} NOT NULL,
    length bigint NOT NULL,
    sha256 text NOT NULL,
    created {moment} NOT NULL
)""",
        ),
    ),
)

LOG: Final = Kind(
    "log",
    "acemq_log",
    (
        (
            # where groups stand in streams; stamp: which commit was the last
            """
CREATE TABLE {table} (
    number {serial},
    group_name text NOT NULL,
    stream text NOT NULL,
    epoch bigint NOT NULL,
    next bigint NOT NULL,
    anchor text NOT NULL,
    unfinished bigint NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    holder text NOT NULL DEFAULT '',
    until {moment} NOT NULL DEFAULT 0,
    stamp text NOT NULL DEFAULT '',
    UNIQUE (group_name, stream)
){fillfactor}""",
            """
CREATE TABLE {table}_lanes (
    place bigint NOT NULL,
    lane text NOT NULL,
    next bigint NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    token text NOT NULL DEFAULT '',
    until {moment} NOT NULL DEFAULT 0,
    PRIMARY KEY (place, lane)
){fillfactor}""",
            """
CREATE TABLE {table}_queries (
    number {serial},
    id text NOT NULL UNIQUE,
    generation integer NOT NULL,
    shape text NOT NULL
)""",
            # closes: NULL is never
            """
CREATE TABLE {table}_windows (
    query bigint NOT NULL,
    stream text NOT NULL,
    lane text NOT NULL,
    key text NOT NULL,
    starts {moment} NOT NULL,
    ends {moment} NOT NULL,
    closes {moment},
    revision integer NOT NULL,
    state text NOT NULL,
    PRIMARY KEY (query, stream, lane, key, starts)
){fillfactor}""",
            # partial, so that no planner takes them for looking windows up by their keys; and the
            # first of a sum, so that none takes it where a lane is named
            """
CREATE INDEX {bare}_windows_closes ON {table}_windows (query, stream, (closes + 0))
WHERE closes IS NOT NULL""",
            """
CREATE INDEX {bare}_windows_lane ON {table}_windows (query, stream, lane, closes)
WHERE closes IS NOT NULL""",
            """
CREATE TABLE {table}_watermarks (
    query bigint NOT NULL,
    stream text NOT NULL,
    lane text NOT NULL,
    moment {moment} NOT NULL,
    PRIMARY KEY (query, stream, lane)
){fillfactor}""",
            """
CREATE TABLE {table}_seen (
    group_name text NOT NULL,
    id text NOT NULL,
    stream text NOT NULL,
    at {moment} NOT NULL,
    PRIMARY KEY (group_name, id)
)""",
            """
CREATE INDEX {bare}_seen_at ON {table}_seen (at)""",
        ),
    ),
)

KINDS: Final[Mapping[str, Kind]] = {
    each.name: each for each in (IDEMPOTENCY, OUTBOX, CLAIM_CHECK, LOG)
}
