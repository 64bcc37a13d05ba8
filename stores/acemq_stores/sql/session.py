"""A few statements on one open connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from acemq_amqp.patterns.database import DbCursor
from acemq_stores.sql.rendering import Rendering, Statement

Row = Sequence[Any]


class Session:
    """Runs statements in the transaction, or none, that its connection is in."""

    __slots__ = ("_cursor", "_rendering")

    def __init__(self, cursor: DbCursor, rendering: Rendering) -> None:
        self._cursor = cursor
        self._rendering = rendering

    @property
    def rendering(self) -> Rendering:
        """How statements are made for this connection."""
        return self._rendering

    def rows(self, statement: Statement, **values: Any) -> list[Row]:
        """The rows that a statement gives."""
        self._execute(statement, values)
        found: list[Row] = self._cursor.fetchall()
        return found

    def row(self, statement: Statement, **values: Any) -> Row | None:
        """The first row that a statement gives, or None."""
        rows = self.rows(statement, **values)
        return rows[0] if rows else None

    def change(self, statement: Statement, **values: Any) -> int:
        """How many rows a statement changed."""
        self._execute(statement, values)
        return self._cursor.rowcount

    def define(self, ddl: str) -> None:
        """Runs one statement of DDL."""
        self._cursor.execute(ddl)

    def _execute(self, statement: Statement, values: dict[str, Any]) -> None:
        sql, bound = self._rendering.bound(statement, values)
        if bound:
            self._cursor.execute(sql, bound)
        else:
            self._cursor.execute(sql)
