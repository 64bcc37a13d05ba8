"""Statements as drivers take them: paramstyles, dialects, drivers that are known or not."""

from __future__ import annotations

import sqlite3
from types import SimpleNamespace
from typing import Any

import pytest

from acemq_amqp import ConfigurationError
from acemq_stores.sql import log_statements, statements, window_statements
from acemq_stores.sql.dialects import DIALECTS, POSTGRESQL, SQLITE, checked_table
from acemq_stores.sql.drivers import driver_of
from acemq_stores.sql.rendering import Rendering, Statement

STATEMENT = Statement("s", "SELECT :one::text, '50%' FROM {table} WHERE a = :two AND b = :one")
VALUES = {"one": 1, "two": 2}


@pytest.mark.parametrize(
    ("style", "sql", "bound"),
    [
        ("qmark", "SELECT ?::text, '50%' FROM t WHERE a = ? AND b = ?", (1, 2, 1)),
        ("numeric", "SELECT :1::text, '50%' FROM t WHERE a = :2 AND b = :3", (1, 2, 1)),
        ("named", "SELECT :one::text, '50%' FROM t WHERE a = :two AND b = :one", VALUES),
        ("format", "SELECT %s::text, '50%%' FROM t WHERE a = %s AND b = %s", (1, 2, 1)),
        (
            "pyformat",
            "SELECT %(one)s::text, '50%%' FROM t WHERE a = %(two)s AND b = %(one)s",
            VALUES,
        ),
    ],
)
def test_a_statement_in_each_paramstyle(style: str, sql: str, bound: Any) -> None:
    assert Rendering(POSTGRESQL, style, "t").bound(STATEMENT, VALUES) == (sql, bound)


def test_a_paramstyle_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no paramstyle"):
        Rendering(SQLITE, "dollar", "t")


def named_statements() -> list[Statement]:
    return [
        each
        for module in (statements, log_statements, window_statements)
        for each in vars(module).values()
        if isinstance(each, Statement)
    ]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
def test_every_statement_can_be_said_in_every_dialect(dialect: Any) -> None:
    rendering = Rendering(dialect, "qmark", "t")
    named = named_statements()
    assert len(named) > 75
    for each in named:
        assert "{" not in rendering.sql(each)


def test_statements_have_names_of_their_own() -> None:
    named = named_statements()
    assert len({each.name for each in named}) == len(named)


@pytest.mark.parametrize("name", ["outbox", "app.outbox", "_x1"])
def test_names_of_tables(name: str) -> None:
    assert checked_table(name) == name


@pytest.mark.parametrize("name", ["", "a b", "a;b", 'a"', "a.b.c", "1a", "x" * 41, None])
def test_what_cannot_be_the_name_of_a_table_is_refused(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="cannot be the name of a table"):
        checked_table(name)


# ------------------------------------------------------------ drivers


def test_a_driver_is_known_by_its_connection_s_class() -> None:
    class Ours(sqlite3.Connection):
        pass

    connection = sqlite3.connect(":memory:", factory=Ours)
    assert driver_of(connection).dialect is SQLITE
    connection.close()


def test_django_s_wrapper_is_known_by_its_vendor() -> None:
    wrapper = SimpleNamespace(vendor="postgresql", get_autocommit=lambda: True)
    driver = driver_of(wrapper)
    assert (driver.dialect, driver.paramstyle) == (POSTGRESQL, "format")
    assert driver.autocommits(wrapper) is True


def test_an_unknown_driver_wants_its_dialect_named() -> None:
    with pytest.raises(ConfigurationError, match="dialect='postgresql'"):
        driver_of(SimpleNamespace())
    assert driver_of(SimpleNamespace(), "postgresql").paramstyle == "format"


@pytest.mark.parametrize(("autocommit", "refused"), [(True, True), (False, False), (None, False)])
def test_an_unknown_driver_is_trusted_unless_it_says_autocommit(
    autocommit: bool | None, refused: bool
) -> None:
    connection = SimpleNamespace(autocommit=autocommit)
    assert driver_of(connection, "sqlite").autocommits(connection) is refused
