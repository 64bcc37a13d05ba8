"""The PostgreSQL of the benchmarks: private, gone afterwards, and every commit waits for the disk.

An address in ``ACEMQ_TEST_POSTGRES_URL`` comes first; a database of our own is made there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.support.postgres import ADDRESS, Postgres, fresh_database


@contextmanager
def database(wanted: bool) -> Iterator[str]:
    """The address of an empty database; ``""`` where none is wanted."""
    if not wanted:
        yield ""
        return
    given = os.environ.get(ADDRESS)
    if given:
        with fresh_database(given) as address:
            yield address
        return
    server = Postgres.start(durable=True)
    try:
        yield server.url
    finally:
        server.close()


def emptied(address: str) -> None:
    """Drops every table."""
    with psycopg.connect(address) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
