"""``acemq claims``: payloads that were put aside, and that no message names any more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import Annotated

import typer

from acemq_amqp.cli.named_keys import Named, in_outbox, in_queue, in_stream
from acemq_amqp.cli.options import LOCALHOST, Json, PerhapsDatabase, Url, duration, given
from acemq_amqp.cli.outcomes import DONE
from acemq_amqp.cli.places import broker, outbox_at, payloads_at
from acemq_amqp.cli.printing import say, say_json, say_table
from acemq_amqp.cli.sweeping import Sweep, looked_over, removed
from acemq_amqp.errors import ConfigurationError

app = typer.Typer(help="Payloads of claim checks.", no_args_is_help=True)


@app.callback()
def claims() -> None:
    """Payloads of claim checks."""


@app.command()
def sweep(
    store: Annotated[
        str,
        typer.Argument(
            metavar="STORE", help="A folder, s3://bucket/prefix, sqlite:///path, postgresql://..."
        ),
    ],
    older_than: Annotated[
        str,
        typer.Option(help="Only payloads put so long ago: 30d. Longer than any message lives."),
    ],
    delete: Annotated[bool, typer.Option("--delete", help="Remove; otherwise only tell.")] = False,
    queue: Annotated[
        list[str] | None,
        typer.Option(help="A classic queue without consumers to look into. May be repeated."),
    ] = None,
    stream: Annotated[
        list[str] | None, typer.Option(help="A stream to read. May be repeated.")
    ] = None,
    database: PerhapsDatabase = None,
    outbox_table: Annotated[
        list[str] | None, typer.Option(help="An outbox of --database. May be repeated.")
    ] = None,
    table: Annotated[
        str, typer.Option(help="The payloads' table, in a database.")
    ] = "acemq_claim_check",
    endpoint_url: Annotated[
        str | None, typer.Option(envvar="AWS_ENDPOINT_URL", help="Of an S3 server.")
    ] = None,
    url: Url = LOCALHOST,
    as_json: Json = False,
) -> int:
    """Removes payloads that are old and that nothing it is pointed at names.

    It looks into outboxes (records sent, waiting and set aside), streams, and classic queues
    without consumers; if it cannot see all of one of them it stops and removes nothing. It never
    looks into quorum queues, or queues with consumers: there the age alone has to be longer than
    any message's life. Half-written files and lone digests of that age go too.
    """
    age = duration(older_than, "--older-than")
    if age <= 0:
        raise ConfigurationError("acemq: --older-than is 0: young payloads are in use; give an age")
    place = given(database, "--database")
    for option, names in (
        ("--queue", queue),
        ("--stream", stream),
        ("--outbox-table", outbox_table),
    ):
        for name in names or ():
            given(name, option)
    payloads = payloads_at(store, table, endpoint_url)
    with _closed_after(payloads):
        found = looked_over(payloads, time.time() - age)
        named = [*_in_outboxes(place, outbox_table), *_at_the_broker(url, queue, stream)]
        result = found.without(named)
        if delete:
            result = removed(payloads, result)
    _tell(result, named, delete, as_json)
    return DONE


@contextmanager
def _closed_after(payloads: object) -> Iterator[None]:
    try:
        yield
    finally:
        close = getattr(payloads, "close", None)
        if close is not None:
            close()


def _in_outboxes(database: str, tables: list[str] | None) -> Iterator[Named]:
    if not database and not tables:
        return
    for each in tables or ["acemq_outbox"]:
        with closing(outbox_at(database, each)) as outbox:
            yield in_outbox(outbox, each)


def _at_the_broker(url: str, queues: list[str] | None, streams: list[str] | None) -> list[Named]:
    if not queues and not streams:
        return []
    with broker(url) as mq:
        return [
            *(in_queue(mq, each) for each in queues or ()),
            *(in_stream(mq, each) for each in streams or ()),
        ]


def _tell(result: Sweep, named: list[Named], delete: bool, as_json: bool) -> None:
    if as_json:
        looked = [{"place": each.place, "messages": each.messages} for each in named]
        say_json({"deleted": delete, "looked_into": looked, **asdict(result.counts)})
        return
    counts = result.counts
    say_table(
        ("payloads", "#"),
        [
            ("in the store", counts.payloads),
            ("older than the age", counts.old),
            *((f"named in {each.place}", result.named_in(each)) for each in named),
            ("named nowhere", counts.unnamed),
            ("left by crashes", counts.orphans),
        ],
    )
    if delete:
        say(f"{counts.removed} removed")
    else:
        say("nothing was removed; with --delete those named nowhere and left by crashes are")
