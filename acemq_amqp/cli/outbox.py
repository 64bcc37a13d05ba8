"""``acemq outbox``: what waits to be sent, and what was set aside after too many refusals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer

from acemq_amqp.cli.options import Database, Json, Table, Yes, duration
from acemq_amqp.cli.outcomes import DONE, WRONG, one_line
from acemq_amqp.cli.places import outbox_at
from acemq_amqp.cli.printing import ago, counted, say, say_json, say_table
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.patterns import OutboxRow, OutboxStatus
from acemq_amqp.patterns.waiting import driven
from acemq_stores import SqlOutboxStore

app = typer.Typer(help="The transactional outbox.", no_args_is_help=True)

_ALL: Final = 1_000_000
_TABLE: Final = "acemq_outbox"

Numbers = Annotated[
    list[str] | None, typer.Argument(metavar="RECORD...", help="Numbers or ids of records.")
]
Every = Annotated[bool, typer.Option("--all", help="Every record that was set aside.")]
Aside = list[tuple[OutboxRow, str]]


@app.command()
def status(
    limit: Annotated[int, typer.Option(min=1, help="Set-aside records to list at most.")] = 20,
    database: Database = "",
    table: Table = _TABLE,
    as_json: Json = False,
) -> int:
    """Tells how many records wait and how long, and lists those that were set aside.

    Exit code 1 where some are, or where some that wait were refused already: they are not sent, and
    may hold others of their key back.
    """
    with _opened(database, table) as store:
        found = driven(store.status())
        aside = driven(store.set_aside(limit))
    if as_json:
        say_json(_data(found, aside))
    else:
        waits = "record waits" if found.waiting == 1 else "records wait"
        say(f"{found.waiting} {waits}, the oldest for {ago(found.lag)}")
        if found.failing:
            last = one_line(found.error)
            say(f"{found.failing} of them refused already and tried again; last: {last}")
        say(f"{found.set_aside} {'was' if found.set_aside == 1 else 'were'} set aside")
        if aside:
            columns = ("#record", "id", "to", "key", "#age", "#attempts", "error")
            say_table(columns, [_line(row, error) for row, error in aside])
    return WRONG if found.set_aside or found.failing else DONE


@app.command()
def retry(
    records: Numbers = None,
    every: Every = False,
    database: Database = "",
    table: Table = _TABLE,
    as_json: Json = False,
) -> int:
    """Releases records that were set aside: relays send them again, with no attempt counted."""
    with _opened(database, table) as store:
        chosen = _chosen(driven(store.set_aside(_ALL)), records, every)
        released = driven(store.release(chosen))
    _tell("released", released, as_json)
    return DONE


@app.command()
def purge(
    older_than: Annotated[
        str, typer.Option(help="Records that were sent so long ago: 1h, 7d.")
    ] = "0s",
    drop: Annotated[
        list[str] | None,
        typer.Option(help="Drop this set-aside record, by number or id, unsent. May be repeated."),
    ] = None,
    yes: Yes = False,
    database: Database = "",
    table: Table = _TABLE,
    as_json: Json = False,
) -> int:
    """Removes records that were sent; with --drop, only those set-aside ones, which are lost."""
    keep = duration(older_than, "--older-than")
    with _opened(database, table, keep_sent=keep) as store:
        if drop:
            chosen = _chosen(driven(store.set_aside(_ALL)), drop, False)
            if not yes:
                typer.confirm(
                    f"Drop {counted(len(chosen), 'record')} unsent?", abort=True, err=True
                )
            removed = driven(store.drop(chosen))
        else:
            removed = _purged(store)
    _tell("dropped" if drop else "removed", removed, as_json)
    return DONE


@contextmanager
def _opened(database: str, table: str, **options: Any) -> Iterator[SqlOutboxStore]:
    store = outbox_at(database, table, **options)
    try:
        yield store
    finally:
        store.close()


def _purged(store: SqlOutboxStore) -> int:
    """In batches, so that relays are not held up."""
    total = 0
    while removed := driven(store.purge()):
        total += removed
    return total


def _chosen(aside: Aside, words: list[str] | None, every: bool) -> list[OutboxRow]:
    """The records that are named.

    :raises ConfigurationError: none is, or one is not among those set aside
    """
    if every == bool(words):
        raise ConfigurationError("acemq: which records? Give their numbers or ids, or --all")
    if every:
        return [row for row, _ in aside]
    named = {name: row for row, _ in aside for name in (str(row.seq), row.record.id)}
    strangers = [word for word in words or () if word not in named]
    if strangers:
        raise ConfigurationError(
            f"acemq: {', '.join(strangers)} was not set aside: see acemq outbox status"
        )
    return [named[word] for word in words or ()]


def _line(row: OutboxRow, error: str) -> tuple[object, ...]:
    record = row.record
    place = f"{record.exchange} {record.routing_key}".strip()
    return row.seq, record.id, place, record.ordering_key, ago(row.age), row.attempts, error


def _data(found: OutboxStatus, aside: Aside) -> dict[str, Any]:
    listed = [
        {
            "record": row.seq,
            "id": row.record.id,
            "exchange": row.record.exchange,
            "routing_key": row.record.routing_key,
            "ordering_key": row.record.ordering_key,
            "age": row.age,
            "attempts": row.attempts,
            "error": error,
        }
        for row, error in aside
    ]
    return asdict(found) | {"records": listed}


def _tell(verb: str, count: int, as_json: bool) -> None:
    if as_json:
        say_json({verb: count})
    else:
        say(f"{counted(count, 'record')} {verb}")
