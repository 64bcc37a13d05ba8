"""As much of PEP 249 as is used here.

Any connection that follows PEP 249 has these methods, whichever driver or framework it came from.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


class DbCursor(Protocol):
    """A cursor, as far as it is used."""

    @property
    def rowcount(self) -> int:
        """Rows that the last statement changed."""

    def execute(self, operation: str, parameters: Any = ..., /) -> Any:
        """Runs one statement."""

    def fetchone(self) -> Any:
        """The next row, or None."""

    def fetchall(self) -> Any:
        """All rows that are left."""

    def close(self) -> None:
        """Lets go of it."""


@runtime_checkable
class DbConnection(Protocol):
    """A connection, as far as it is used."""

    def cursor(self) -> DbCursor:
        """A new cursor."""

    def commit(self) -> None:
        """Ends the transaction, and keeps what it did."""

    def rollback(self) -> None:
        """Ends the transaction, and undoes what it did."""

    def close(self) -> None:
        """Lets go of it."""
