"""Writing outbox records in the caller's transaction, as steps for any connection.

Rows of one ordering key are sent in the order of their numbers, so that order has to be the order
of commits: a number is taken only while the key is locked, and the lock ends with the transaction.
SQLite's one writer is lock enough. A record that is there already stays one record, and leaves the
transaction usable.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from zlib import crc32

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.patterns.outbox import OutboxRecord
from acemq_stores.sql import statements as sql
from acemq_stores.sql.dialects import POSTGRESQL, Dialect
from acemq_stores.sql.failures import state_of
from acemq_stores.sql.session import Step, Steps
from acemq_stores.sql.tables import BUCKETS

_NO_KEY: Final = -1
#: bytes of bodies that one statement carries, where more than one record is in it
_LARGE: Final = 1024 * 1024
_READ_COMMITTED: Final = "read committed"
#: unique violation
_THERE_ALREADY: Final = "23505"


def bucket_of(ordering_key: str) -> int:
    """The bucket in which relays lease a key; -1 where there is none."""
    return crc32(ordering_key.encode()) % BUCKETS if ordering_key else _NO_KEY


def lock_of(*words: str) -> int:
    """The number of PostgreSQL's advisory lock for a key of a table."""
    digest = hashlib.blake2b("\0".join(words).encode(), digest_size=8, person=b"acemq").digest()
    return int.from_bytes(digest, signed=True)


def checked_records(records: Iterable[Any]) -> list[OutboxRecord]:
    """Records, every one of them.

    :raises ConfigurationError: something else among them
    """
    found = list(records)
    for each in found:
        if not isinstance(each, OutboxRecord):
            raise ConfigurationError(
                f"acemq: a {type(each).__name__} is no outbox record: make one with record(...)"
            )
    return found


def adding(
    records: Sequence[OutboxRecord],
    table: str,
    dialect: Dialect,
    *,
    lock_keys: bool,
    channel: str = "",
) -> Steps[None]:
    """The steps that write records, in their order.

    :param channel: where their commit is told; ``""``: nowhere
    """
    isolated = False
    if dialect is POSTGRESQL:
        if lock_keys:
            yield from _locked(records, table)
        rows = yield Step(sql.ISOLATION, {}, wants=True)
        isolated = rows[0][0] != _READ_COMMITTED
    for batch in _batches(records, at_once=dialect is POSTGRESQL and not isolated):
        if isolated:
            yield from _in_savepoint(Step(sql.ADD_NEW, _values(batch[0])))
        elif len(batch) == 1:
            yield Step(sql.ADD, _values(batch[0]))
        else:
            yield _written_at_once(batch)
    if channel and records and dialect is POSTGRESQL:
        yield Step(sql.NOTIFY, {"channel": channel}, wants=True)


def _locked(records: Sequence[OutboxRecord], table: str) -> Steps[None]:
    # keys in one order, so that transactions which write the same ones do not wait crosswise
    keys = sorted({each.ordering_key for each in records} - {""})
    if keys:
        locks = json.dumps([lock_of(table, key) for key in keys])
        yield Step(sql.LOCK_KEYS, {"given": locks}, wants=True)


def _batches(records: Sequence[OutboxRecord], *, at_once: bool) -> Iterator[list[OutboxRecord]]:
    """Records by statement: one by one, or so many that no statement is a large one."""
    batch: list[OutboxRecord] = []
    size = 0
    for each in records:
        if batch and (not at_once or size + len(each.body) > _LARGE):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += len(each.body)
    if batch:
        yield batch


def _written_at_once(records: Sequence[OutboxRecord]) -> Step:
    rows = [
        {**_values(each), "headers": _as_text(each.headers), "body": _as_text(each.body)}
        for each in records
    ]
    return Step(sql.ADD_MANY, {"given": json.dumps(rows)})


def _as_text(content: bytes) -> str:
    return b64encode(content).decode("ascii")


def _in_savepoint(write: Step) -> Steps[None]:
    """A serialization failure passes: its transaction is to be done again, not without a record."""
    yield Step(sql.SAVEPOINT, {})
    try:
        yield write
    except Exception as failure:
        if state_of(failure) != _THERE_ALREADY:
            raise
        yield Step(sql.TO_SAVEPOINT, {})
    yield Step(sql.RELEASE_SAVEPOINT, {})


def _values(record: OutboxRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "exchange": record.exchange,
        "routing_key": record.routing_key,
        "ordering_key": record.ordering_key,
        "bucket": bucket_of(record.ordering_key),
        "content_type": record.content_type,
        "headers": record.headers,
        "body": record.body,
    }
