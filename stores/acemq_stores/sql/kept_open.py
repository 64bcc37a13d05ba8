"""SQLite's own guard around a transaction that somebody else's function writes in."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def kept_open(connection: Any) -> Iterator[list[str]]:
    """Refuses the end of the transaction inside, on connections of sqlite3 itself.

    :returns: what was refused, as it comes: COMMIT, ROLLBACK
    """
    refused: list[str] = []
    if not isinstance(connection, sqlite3.Connection):
        yield refused
        return

    def allowed(action: int, *names: object) -> int:
        if action != sqlite3.SQLITE_TRANSACTION:
            return sqlite3.SQLITE_OK
        refused.append(str(names[0]))
        return sqlite3.SQLITE_DENY

    connection.set_authorizer(allowed)
    try:
        yield refused
    finally:
        with suppress(sqlite3.ProgrammingError):  # closed inside
            connection.set_authorizer(None)
