"""How results are printed: tables for people, JSON for scripts.

What comes out of a message is anybody's text: it is never taken for markup, and its control
characters are shown and not obeyed.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from acemq_amqp.durations import spelled

_DAY: Final = 86400


def say(text: str) -> None:
    """Prints a line."""
    print(clean(text))


def say_json(value: Any) -> None:
    """Prints a value for a script."""
    print(json.dumps(value, indent=2, default=str, ensure_ascii=False))


def say_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints rows under their headings; columns whose heading begins with ``#`` hold numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        right = column.startswith("#")
        table.add_column(
            column.removeprefix("#"), justify="right" if right else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(clean(str(cell))) for cell in row))
    Console(file=sys.stdout, highlight=False, markup=False).print(table)


def clean(text: str) -> str:
    """Text whose control characters a terminal does not obey."""
    return "".join(
        each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in text
    )


def counted(count: int, what: str) -> str:
    """So many of something: ``1 message``, ``2 messages``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def ago(seconds: float) -> str:
    """An age, to the second below a minute and coarser above."""
    whole = max(0, int(seconds))
    if whole >= 2 * _DAY:
        return f"{whole // _DAY}d"
    if whole >= 7200:
        return f"{whole // 3600}h"
    return spelled(whole // 60 * 60 if whole >= 120 else whole)


def log_to_stderr(verbose: bool) -> None:
    """The log on stderr, or none: without a handler Python prints warnings by itself."""
    logging.basicConfig(
        level=logging.INFO if verbose else logging.CRITICAL + 1,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
