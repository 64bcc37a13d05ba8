"""A driver's exceptions, told apart without importing any driver.

Every PEP 249 driver names its errors alike. What matters of one: whether the connection is gone
(the same again on another may work), whether the database asks for the transaction to be repeated,
or neither.
"""

from __future__ import annotations

from typing import Final

from acemq_amqp.errors import AceMQError, StoreError

_ROOTS: Final = {"Error", "DatabaseError", "InterfaceError", "PoolError"}
_BUILT_IN: Final = {"builtins", "acemq_amqp.errors"}
#: serialization failure, deadlock: PostgreSQL undid it, and wants it tried again
_AGAIN: Final = {"40001", "40P01"}
_GONE: Final = {"OperationalError", "InterfaceError"}
_BUSY: Final = 5


def is_database_error(failure: BaseException) -> bool:
    """Whether a driver raised it, as PEP 249 names its errors."""
    return any(
        kind.__name__ in _ROOTS and kind.__module__ not in _BUILT_IN
        for kind in type(failure).__mro__
    )


def asks_for_repeat(failure: BaseException) -> bool:
    """Whether the database undid the transaction for the sake of another."""
    return state_of(failure) in _AGAIN


def lost_connection(failure: BaseException) -> bool:
    """Whether the connection is gone, or was never there."""
    if any(kind.__name__ == "PoolTimeout" for kind in type(failure).__mro__):
        return False  # it has been waited for already
    state = state_of(failure)
    if state is not None:
        return state.startswith("08") or state in ("57P01", "57P02", "57P03")
    named = {kind.__name__ for kind in type(failure).__mro__}
    return bool(named & _GONE) and not _sqlite_code(failure)


def store_error(failure: BaseException, table: str, database: str) -> StoreError:
    """What the caller is told."""
    told = " ".join(str(failure).split()) or type(failure).__name__
    return StoreError(
        f"acemq: the {database} database of {table} failed ({type(failure).__name__}: {told}); "
        + _advice(failure)
    )


def _advice(failure: BaseException) -> str:
    if _sqlite_code(failure) & 0xFF == _BUSY:
        return (
            "another program holds SQLite's write lock: keep its transactions short, and begin "
            "them with BEGIN IMMEDIATE"
        )
    if asks_for_repeat(failure):
        return (
            "the database undid it for the sake of another transaction: roll back, and do the "
            "whole transaction again"
        )
    if state_of(failure) == "25P02":
        return "the transaction had failed before: roll it back, and begin again"
    if state_of(failure) == "42P01" or "no such table" in str(failure):
        return "its table is gone: call create_schema, then start again"
    if lost_connection(failure) or "PoolTimeout" in type(failure).__name__:
        return "check that it runs and that its address and login are right"
    return "nothing was changed by this call"


def mapped(failure: Exception, table: str, database: str) -> Exception:
    """The failure as the store's own error, or itself where no driver raised it."""
    if isinstance(failure, AceMQError) or not is_database_error(failure):
        return failure
    return store_error(failure, table, database)


def state_of(failure: BaseException) -> str | None:
    """The SQLSTATE of a driver's error, also where a framework has wrapped it."""
    for each in (failure, failure.__cause__):
        state = getattr(each, "sqlstate", None) or getattr(each, "pgcode", None)
        if isinstance(state, str):
            return state
    return None


def _sqlite_code(failure: BaseException) -> int:
    for each in (failure, failure.__cause__):
        code = getattr(each, "sqlite_errorcode", None)
        if isinstance(code, int):
            return code
    return 0
