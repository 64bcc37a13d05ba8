"""A look into a database from beside the store, and the connections of callers."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import psycopg


def opened(database: str) -> Any:
    """A connection as its driver makes it by default: it begins transactions by itself."""
    if database.startswith("sqlite"):
        return sqlite3.connect(path_of(database), timeout=30)
    return psycopg.connect(database)


def path_of(database: str) -> str:
    """The file of a SQLite database."""
    return database.removeprefix("sqlite:///")


def rows(database: str, sql: str) -> list[tuple[Any, ...]]:
    """What a query gives, in a transaction of its own."""
    with closing(opened(database)) as connection:
        found = [tuple(row) for row in connection.execute(sql).fetchall()]
        connection.commit()
        return found


def run(database: str, *sql: str) -> None:
    """Runs statements, and commits them."""
    with closing(opened(database)) as connection:
        for each in sql:
            connection.execute(each)
        connection.commit()
