"""The stores that the suite runs on, each with the means to spoil what is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from acemq_amqp.patterns import ClaimCheckStore, InMemoryClaimCheckStore
from acemq_stores import FilesystemClaimCheckStore, S3ClaimCheckStore, SqlClaimCheckStore
from tests.support.s3 import LOGIN, REGION, s3_client


class StoreStand(Protocol):
    """A store, empty when a case begins."""

    store: ClaimCheckStore

    def another(self) -> ClaimCheckStore:
        """A second store over the same payloads, as another program would open it."""

    def replace(self, key: str, content: bytes) -> None:
        """Puts other bytes in the place of a payload, behind the store's back."""


class MemoryStand:
    """Payloads in this process."""

    def __init__(self) -> None:
        self.store = InMemoryClaimCheckStore()

    def another(self) -> ClaimCheckStore:
        return self.store


class FilesystemStand:
    """Payloads in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.store = self.another()

    def another(self) -> FilesystemClaimCheckStore:
        return FilesystemClaimCheckStore(self._folder)

    def replace(self, key: str, content: bytes) -> None:
        (self._folder / key).write_bytes(content)


class S3Stand:
    """Payloads in a bucket of moto's server."""

    prefix = "claims/"

    def __init__(self, url: str, bucket: str) -> None:
        self.url = url
        self.bucket = bucket
        self.client = s3_client(url)
        self.client.create_bucket(
            Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        self.store = self.another()

    def another(self, **options: Any) -> S3ClaimCheckStore:
        import boto3

        options = {
            "endpoint_url": self.url,
            "session": boto3.Session(region_name=REGION, **LOGIN),
            "prefix": self.prefix,
            **options,
        }
        return S3ClaimCheckStore(self.bucket, **options)

    def replace(self, key: str, content: bytes) -> None:
        name = self.prefix + key
        metadata = self.client.head_object(Bucket=self.bucket, Key=name)["Metadata"]
        self.client.put_object(Bucket=self.bucket, Key=name, Body=content, Metadata=metadata)


class SqlStand:
    """Payloads in a table.

    :param connect: opens a connection of the driver
    :param mark: how the driver spells a parameter
    """

    def __init__(self, address: str, connect: Callable[[], Any], mark: str) -> None:
        self._address = address
        self._connect = connect
        self._mark = mark
        self._opened: list[SqlClaimCheckStore] = []
        self.store = self.another()

    def another(self) -> SqlClaimCheckStore:
        self._opened.append(SqlClaimCheckStore(self._address))
        return self._opened[-1]

    def replace(self, key: str, content: bytes) -> None:
        connection = self._connect()
        connection.execute(
            f"UPDATE acemq_claim_check SET content = {self._mark} WHERE key = {self._mark}",
            (content, key),
        )
        connection.commit()
        connection.close()

    def close(self) -> None:
        for store in self._opened:
            store.close()


@contextmanager
def sqlite_stand(folder: Path) -> Iterator[SqlStand]:
    """A table in a SQLite file."""
    import sqlite3

    path = folder / "payloads.db"
    stand = SqlStand(f"sqlite:///{path}", lambda: sqlite3.connect(path), "?")
    yield stand
    stand.close()


@contextmanager
def postgres_stand(url: str) -> Iterator[SqlStand]:
    """A table in a PostgreSQL database."""
    import psycopg

    stand = SqlStand(url, lambda: psycopg.connect(url), "%s")
    yield stand
    stand.close()
