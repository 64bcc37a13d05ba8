"""A few statements on one open connection."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from acemq_amqp.patterns.database import DbCursor
from acemq_stores.sql.rendering import Rendering, Statement

T = TypeVar("T")
Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One statement to run; whether its rows are wanted."""

    statement: Statement
    values: dict[str, Any]
    wants: bool = False


#: Statements one after the other, each with the last one's rows at hand, whoever runs them.
Steps = Generator[Step, list[Any], T]


class Session:
    """Runs statements in the transaction, or none, that its connection is in.

    :ivar connection: as its driver gives it, for those who write in the same transaction
    """

    __slots__ = ("_cursor", "_rendering", "connection")

    def __init__(self, cursor: DbCursor, rendering: Rendering, connection: Any) -> None:
        self._cursor = cursor
        self._rendering = rendering
        self.connection = connection

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

    def carry_out(self, steps: Steps[None]) -> None:
        """Carries steps out one after the other."""
        try:
            step = next(steps)
            while True:
                self._execute(step.statement, step.values)
                step = steps.send(self._cursor.fetchall() if step.wants else [])
        except StopIteration:
            return

    def define(self, ddl: str) -> None:
        """Runs one statement of DDL."""
        self._cursor.execute(ddl)

    def _execute(self, statement: Statement, values: dict[str, Any]) -> None:
        sql, bound = self._rendering.bound(statement, values)
        if bound:
            self._cursor.execute(sql, bound)
        else:
            self._cursor.execute(sql)
