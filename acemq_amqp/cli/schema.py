"""``acemq schema``: the SQL of the stores' tables."""

from __future__ import annotations

from typing import Annotated

import typer

from acemq_amqp.cli.options import Database
from acemq_amqp.cli.outcomes import DONE
from acemq_amqp.errors import ConfigurationError
from acemq_stores import schema_ddl


def schema(
    dialect: Annotated[
        str,
        typer.Argument(
            help="sqlite or postgresql; by default what --database speaks, or postgresql."
        ),
    ] = "",
    table: Annotated[
        list[str] | None,
        typer.Option(help="KIND=NAME, such as outbox=shop_outbox: only these are printed."),
    ] = None,
    database: Database = "",
) -> int:
    """Prints the SQL that makes the stores' tables from nothing, and notes their versions.

    Connects to nothing: of --database only the kind is read.
    """
    print(schema_ddl(dialect or _spoken(database), _tables(table)), end="")
    return DONE


def _spoken(database: str) -> str:
    scheme = database.partition(":")[0]
    return {"postgres": "postgresql", "": "postgresql"}.get(scheme, scheme)


def _tables(words: list[str] | None) -> dict[str, str] | None:
    if not words:
        return None
    tables = {}
    for word in words:
        kind, equals, name = word.partition("=")
        if not equals:
            raise ConfigurationError(f"acemq: --table is {word!r}: give KIND=NAME")
        tables[kind] = name
    return tables
