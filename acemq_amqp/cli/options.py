"""Options that several commands have, and how their words are read."""

from __future__ import annotations

import re
from typing import Annotated, Final

import typer

from acemq_amqp.errors import ConfigurationError

Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="AMQP_URL",
        show_envvar=True,
        show_default="localhost",
        help="The broker, as amqp://user:password@host/vhost.",
    ),
]
_DATABASE: Final = typer.Option(
    "--database",
    envvar="ACEMQ_DATABASE",
    show_envvar=True,
    help="The database, as sqlite:///path or postgresql://user@host/name.",
)
Database = Annotated[str, _DATABASE]
#: Where none means none, and an empty one is a mistake.
PerhapsDatabase = Annotated[str | None, _DATABASE]
Table = Annotated[str, typer.Option("--table", help="The outbox's table.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

LOCALHOST: Final = "amqp://guest:guest@localhost/"

_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")


def given(text: str | None, option: str) -> str:
    """What an option was given; ``""`` where it was not.

    :raises ConfigurationError: it was given nothing, as from a variable of a script that is not set
    """
    if text is not None and not text.strip():
        raise ConfigurationError(f"acemq: {option} is empty: give a value, or leave it out")
    return text or ""


def duration(text: str, option: str) -> float:
    """Seconds, from words such as ``90s``, ``12h``, ``30d``.

    :raises ConfigurationError: no such word
    """
    read = _DURATION.fullmatch(text.strip())
    if read is None:
        raise ConfigurationError(
            f"acemq: {option} is {text!r}: give a number with its unit, such as 90s, 12h, 30d"
        )
    return float(read[1]) * _UNITS[read[2]]
