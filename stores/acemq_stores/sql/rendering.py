"""From a statement as it is written here to what a driver takes.

Statements have ``:names``. A driver's ``paramstyle`` (PEP 249) says what it wants in their place,
and whether it wants the values as a mapping or in a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from acemq_amqp.errors import ConfigurationError
from acemq_stores.sql.dialects import Dialect

#: a name after one colon: two make a cast of PostgreSQL's
_PARAMETER: Final = re.compile(r"(?<!:):([a-z_]+)")


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement, under the name that the store's code calls it by.

    :ivar text: for every dialect that has no words of its own in ``others``
    """

    name: str
    text: str
    others: Mapping[str, str] = field(default_factory=dict, hash=False)


Bound = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class _Ready:
    sql: str
    order: tuple[str, ...]
    named: bool

    def bind(self, values: Mapping[str, Any]) -> Any:
        return dict(values) if self.named else tuple(values[name] for name in self.order)


class Rendering:
    """Statements as one driver takes them, for one store's table. Each is made once.

    :param paramstyle: qmark, numeric, named, format or pyformat
    """

    def __init__(self, dialect: Dialect, paramstyle: str, table: str) -> None:
        if paramstyle not in _STYLES:
            raise ConfigurationError(
                f"acemq: {paramstyle!r} is no paramstyle of PEP 249: {', '.join(_STYLES)}"
            )
        self.dialect = dialect
        self.paramstyle = paramstyle
        self.table = table
        self._ready: dict[str, _Ready] = {}

    def sql(self, statement: Statement) -> str:
        """The statement's text for this dialect and table, its parameters still named."""
        text = statement.others.get(self.dialect.name, statement.text)
        return filled(text, self.dialect, self.table)

    def bound(self, statement: Statement, values: Mapping[str, Any]) -> Bound:
        """The text and the parameters to execute."""
        ready = self.ready(statement)
        return ready.sql, ready.bind(values)

    def ready(self, statement: Statement) -> _Ready:
        """The statement in the driver's style."""
        ready = self._ready.get(statement.name)
        if ready is None:
            ready = self._ready[statement.name] = _styled(self.sql(statement), self.paramstyle)
        return ready


def filled(text: str, dialect: Dialect, table: str) -> str:
    """The words of a dialect and a table's name put into a text."""
    words = {**dialect.words, "table": table, "bare": table.rpartition(".")[2]}
    return text.format_map(words)


def _styled(sql: str, paramstyle: str) -> _Ready:
    order: list[str] = []
    if paramstyle in ("format", "pyformat"):
        sql = sql.replace("%", "%%")

    def placed(found: re.Match[str]) -> str:
        order.append(found[1])
        return _STYLES[paramstyle](found[1], len(order))

    return _Ready(
        _PARAMETER.sub(placed, sql), tuple(order), named=paramstyle in ("named", "pyformat")
    )


_STYLES: Final[Mapping[str, Callable[[str, int], str]]] = {
    "qmark": lambda name, number: "?",
    "numeric": lambda name, number: f":{number}",
    "named": lambda name, number: f":{name}",
    "format": lambda name, number: "%s",
    "pyformat": lambda name, number: f"%({name})s",
}
