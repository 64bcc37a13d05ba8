"""From the words of a command to a broker, a database or a claim-check store, opened to look.

Nothing is created on the way: a file, table or folder that is not there is a mistake in the words.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from acemq_amqp.blocking import Connection, connect
from acemq_amqp.blocking.eventlog import EventLog
from acemq_amqp.errors import ConfigurationError, StoreError
from acemq_stores import (
    FilesystemClaimCheckStore,
    S3ClaimCheckStore,
    SqlClaimCheckStore,
    SqlLogStore,
    SqlOutboxStore,
)
from acemq_stores.sql.connecting import Connect, sqlite_path

_DATABASES: Final = ("sqlite:", "postgresql:", "postgres:")
_PATIENCE: Final = 5
#: A broker with an alarm lets nobody go before that.
_FAREWELL: Final = 2


class Payloads(Protocol):
    """A claim-check store that can be listed."""

    def listing(self) -> Any: ...
    def delete(self, key: str) -> None: ...


@contextmanager
def broker(url: str) -> Iterator[Connection]:
    """A connection, or an error at once."""
    mq = connect(url, fail_fast=True, timeout=_PATIENCE)
    try:
        yield mq
    finally:
        mq.close(_FAREWELL)


def outbox_at(database: str, table: str, **options: Any) -> SqlOutboxStore:
    """An outbox that is there."""
    connect = _existing(database, "--database")
    return SqlOutboxStore(connect, table=table, create=False, **options)


@contextmanager
def event_log(url: str, database: str, table: str) -> Iterator[EventLog]:
    """A client of event logs whose positions are there, or an error at once."""
    store = SqlLogStore(_existing(database, "--database"), table=table, create=False)
    client = EventLog(url=url, store=store, fail_fast=True, timeout=_PATIENCE)
    try:
        yield client
    finally:
        client.close(_FAREWELL)
        store.close()


def payloads_at(place: str, table: str, endpoint: str | None) -> Payloads:
    """A claim-check store that is there.

    :param place: a folder, ``s3://bucket/prefix``, or the address of a database
    :raises ConfigurationError: it is none of these, or not there
    """
    if place.startswith("s3://"):
        bucket, _, prefix = place.removeprefix("s3://").partition("/")
        store = S3ClaimCheckStore(bucket, prefix=prefix, endpoint_url=endpoint)
        store.check()
        return store
    if place.startswith(_DATABASES):
        return SqlClaimCheckStore(_existing(place, "STORE"), table=table, create=False)
    if "://" in place:
        raise ConfigurationError(
            f"acemq: {place.partition(':')[0]}: is no claim-check store: give a folder, "
            "s3://bucket/prefix, sqlite:///path or postgresql://..."
        )
    if not (Path(place) / ".acemq").is_dir():
        raise ConfigurationError(
            f"acemq: {place!r} is no claim-check folder: there is no .acemq in it, which every "
            "store of this library makes; nothing in it is touched"
        )
    return FilesystemClaimCheckStore(place)


def _existing(database: str, option: str) -> Connect:
    if not database:
        raise ConfigurationError(
            f"acemq: which database? Give {option} or set ACEMQ_DATABASE, as sqlite:///path or "
            "postgresql://user@host/name"
        )
    if database.startswith("sqlite:"):
        path = sqlite_path(database)
        if not Path(path).exists():
            raise ConfigurationError(f"acemq: there is no SQLite database {path!r}")
        return database
    return _postgres(database) if database.startswith(_DATABASES) else database


def _postgres(database: str) -> Connect:
    """One connection, and an error soon: a pool would try for longer than people wait."""
    try:
        import psycopg
    except ImportError as missing:
        raise ConfigurationError(
            "acemq: a postgresql:// address needs psycopg: pip install 'acemq-amqp[postgres]'"
        ) from missing

    def opened() -> Any:
        try:
            return psycopg.connect(database, connect_timeout=_PATIENCE)
        except psycopg.OperationalError as failure:
            raise StoreError(f"acemq: cannot connect to the database: {failure}") from failure

    return opened
