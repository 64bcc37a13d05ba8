"""SQLAlchemy's connections and sessions, without importing SQLAlchemy.

Statements go through ``exec_driver_sql``, so that SQLAlchemy begins its transaction as for any
statement of the caller's, and in the driver's own paramstyle. The asynchronous forms give their
plain one to a function (``run_sync``), and nothing here knows of more.
"""

from __future__ import annotations

from typing import Any

from acemq_amqp.patterns.database import DbCursor


def is_sqlalchemy(given: Any) -> bool:
    """Whether it is a Connection or a Session, plain or asynchronous."""
    kinds = type(given).__mro__
    return any(kind.__module__.partition(".")[0] == "sqlalchemy" for kind in kinds) and (
        hasattr(given, "exec_driver_sql") or hasattr(given, "get_bind")
    )


def is_awaited(given: Any) -> bool:
    """Whether it is one of the asynchronous forms."""
    return hasattr(given, "run_sync")


def dialect_of(given: Any) -> Any:
    """SQLAlchemy's dialect. Connects to nothing."""
    return given.dialect if hasattr(given, "dialect") else given.get_bind().dialect


def connection_of(given: Any) -> Any:
    """The Connection that a plain Session uses, or the Connection itself."""
    return given if hasattr(given, "exec_driver_sql") else given.connection()


def driver_connection_of(given: Any) -> Any:
    """The driver's own connection under a plain one."""
    return connection_of(given).connection.driver_connection


class SqlAlchemyCursor:
    """As much of a PEP 249 cursor as is used, over a Connection."""

    def __init__(self, given: Any) -> None:
        self._connection = connection_of(given)
        self._result: Any = None

    @property
    def rowcount(self) -> int:
        """Rows that the last statement changed."""
        return int(self._result.rowcount)

    def execute(self, operation: str, parameters: Any = None, /) -> None:
        """Runs one statement. What the driver raises is raised as it is."""
        try:
            self._result = self._connection.exec_driver_sql(operation, parameters)
        except Exception as failure:
            raised = getattr(failure, "orig", None)
            if raised is None:
                raise
            raise raised from failure

    def fetchone(self) -> Any:
        """The next row, or None."""
        return self._result.fetchone()

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return [tuple(row) for row in self._result.fetchall()]

    def close(self) -> None:
        """Lets go of the last result."""
        if self._result is not None:
            self._result.close()


def cursor_of(connection: Any) -> DbCursor:
    """A cursor on any plain connection that the stores know."""
    cursor: DbCursor = (
        SqlAlchemyCursor(connection) if is_sqlalchemy(connection) else connection.cursor()
    )
    return cursor
