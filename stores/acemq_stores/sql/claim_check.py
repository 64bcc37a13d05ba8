"""Claim-check payloads as rows of a SQL table, where a database is what all sides reach.

Simple to run beside an outbox, and backed up with it. A database is no place for very many or very
large payloads: S3 or a folder is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from acemq_stores.claim_keys import checked_key, new_key
from acemq_stores.digests import Digest
from acemq_stores.sql import statements as sql
from acemq_stores.sql.connecting import Connect, Database
from acemq_stores.sql.schema import Schema
from acemq_stores.sql.session import Session
from acemq_stores.sql.sources import Access
from acemq_stores.sql.tables import CLAIM_CHECK

T = TypeVar("T")
_PAGE: Final = 1000


class SqlClaimCheckStore:
    """Keeps payloads in a table. What was put is committed when ``put`` returns.

    :param connect: ``sqlite:///path``, ``postgresql://...``, or a callable that gives a PEP 249
        connection
    :param table: its name, behind a schema and a dot or not
    :param dialect: for connections of a driver that the stores do not know
    :param create: create and migrate the table at first use
    :raises ConfigurationError: an address or a name that cannot be
    """

    def __init__(
        self,
        connect: Connect,
        *,
        table: str = CLAIM_CHECK.table,
        dialect: str | None = None,
        create: bool = True,
    ) -> None:
        self._database = Database(connect, table, dialect=dialect)
        self._schema = Schema(self._database, CLAIM_CHECK, create=create)

    def __repr__(self) -> str:
        return f"SqlClaimCheckStore(table={self._database.table!r})"

    def put(self, content: bytes) -> str:
        """Keeps a payload.

        :returns: its key
        :raises StoreError: the database failed, or is not there
        """
        key, digest = new_key(), Digest.of(content)
        self._run(
            lambda session: session.change(
                sql.PUT_PAYLOAD,
                key=key,
                content=bytes(content),
                length=digest.length,
                digest=digest.sha256,
            ),
            Access.ONE,
        )
        return key

    def get(self, key: str) -> bytes | None:
        """The payload, compared with its digest; None where it is not there.

        :raises DecodeError: not a key that a store issues
        :raises FatalError: the row was changed
        :raises StoreError: the database failed, or is not there
        """
        checked_key(key)
        row = self._run(lambda session: session.row(sql.GET_PAYLOAD, key=key), Access.READ)
        if row is None:
            return None
        content = bytes(row[0])
        Digest(str(row[1]), int(row[2])).check(content, key, f"table {self._database.table}")
        return content

    def delete(self, key: str) -> None:
        """Removes a payload; one that is not there is no error.

        :raises DecodeError: not a key that a store issues
        :raises StoreError: the database failed, or is not there
        """
        checked_key(key)
        self._run(lambda session: session.change(sql.DELETE_PAYLOAD, key=key), Access.ONE)

    def listing(self) -> Iterator[tuple[str, float]]:
        """Every payload: its key, and when it was put (seconds since the epoch, by the database).

        :raises StoreError: the database failed, or is not there
        """
        after = ""
        while page := self._page(after):
            yield from page
            after = page[-1][0]

    def close(self) -> None:
        """Lets go of the connections. What is asked of it later is refused."""
        self._database.close()

    def _page(self, after: str) -> list[tuple[str, float]]:
        rows = self._run(
            lambda session: session.rows(sql.PAYLOAD_KEYS, after=after, most=_PAGE), Access.READ
        )
        return [(str(key), float(created)) for key, created in rows]

    def _run(self, work: Callable[[Session], T], access: Access) -> T:
        self._schema.ensure()
        return self._database.run(work, access)
