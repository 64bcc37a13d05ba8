"""Statements on a connection of the caller's, in the caller's transaction.

What is written there is written as a generator of steps, once; a runner carries the steps out on a
connection whose methods block, or awaits them on one whose methods are coroutines. Nothing here
begins, ends or closes anything of the caller's.
"""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from acemq_amqp.errors import AceMQError, ConfigurationError
from acemq_stores.sql.dialects import SQLITE
from acemq_stores.sql.drivers import Driver, driver_of
from acemq_stores.sql.failures import is_database_error
from acemq_stores.sql.rendering import Rendering
from acemq_stores.sql.session import Step, Steps
from acemq_stores.sql.sqlalchemy_objects import cursor_of, is_sqlalchemy

T = TypeVar("T")


class Caller:
    """A caller's connection, as far as it is known.

    :param connection: any that follows PEP 249, psycopg's or aiosqlite's asynchronous one,
        SQLAlchemy's Connection or Session or their asynchronous forms
    :raises ConfigurationError: it commits each statement by itself, is closed, or is none
    """

    def __init__(self, connection: Any, table: str, dialect: str | None) -> None:
        if not hasattr(connection, "cursor") and not is_sqlalchemy(connection):
            raise ConfigurationError(
                f"acemq: connection= wants the connection whose transaction the record belongs to, "
                f"not a {type(connection).__name__}"
            )
        self._connection = connection
        self._table, self._dialect = table, dialect
        try:
            self._driver = driver_of(connection, dialect)
            autocommits = self._driver.autocommits(connection)
        except AceMQError:
            raise
        except Exception as failure:
            raise _unusable(failure) from failure
        self._rendering = Rendering(self._driver.dialect, self._driver.paramstyle, table)
        if autocommits:
            raise _autocommitting(connection)

    @property
    def driver(self) -> Driver:
        """What is known of it."""
        return self._driver

    @property
    def keeps_others_out(self) -> bool:
        """Whether its transaction may hold the lock that creating a table would wait for."""
        return self._driver.dialect is SQLITE and self._driver.in_transaction(self._connection)

    @property
    def awaited(self) -> bool:
        """Whether its methods are coroutines."""
        return inspect.iscoroutinefunction(getattr(type(self._connection), "commit", None))

    def run(self, steps: Steps[T]) -> T:
        """Carries steps out, and gives their outcome. The cursor is closed, nothing else."""
        cursor = cursor_of(self._connection)
        try:
            step = next(steps)
            while True:
                try:
                    cursor.execute(*self._bound(step))
                    rows = cursor.fetchall() if step.wants else []
                except Exception as failure:
                    step = _told(steps, failure)
                else:
                    step = steps.send(rows)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            cursor.close()

    async def awaiting(self, steps: Steps[T]) -> T:
        """The same on a connection whose methods are coroutines."""
        if is_sqlalchemy(self._connection):
            result: T = await self._connection.run_sync(self._run_inside, steps)
            return result
        cursor = self._connection.cursor()
        if inspect.isawaitable(cursor):
            cursor = await cursor
        try:
            step = next(steps)
            while True:
                try:
                    await cursor.execute(*self._bound(step))
                    rows = list(await cursor.fetchall()) if step.wants else []
                except Exception as failure:
                    step = _told(steps, failure)
                else:
                    step = steps.send(rows)
        except StopIteration as done:
            result = done.value
            return result
        finally:
            await cursor.close()

    def _run_inside(self, plain: Any, steps: Steps[T]) -> T:
        return Caller(plain, self._table, self._dialect).run(steps)

    def _bound(self, step: Step) -> tuple[Any, ...]:
        sql, values = self._rendering.bound(step.statement, step.values)
        return (sql, values) if values else (sql,)


def _told(steps: Steps[Any], failure: Exception) -> Step:
    """What the steps do about a failure: a further step, or it is raised."""
    if not is_database_error(failure):
        raise failure
    return steps.throw(failure)


def _unusable(failure: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"acemq: connection= cannot be used ({type(failure).__name__}: {failure}): give the open "
        "connection whose transaction the record belongs to"
    )


def _autocommitting(connection: Any) -> ConfigurationError:
    return ConfigurationError(
        f"acemq: no transaction is open on this {type(connection).__module__} connection and it "
        "would commit the record at once, whatever becomes of the work beside it: begin a "
        "transaction first, or turn autocommit off"
    )
