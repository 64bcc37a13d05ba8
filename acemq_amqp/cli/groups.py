"""``acemq groups``: who reads an event log, how far behind each is, and moving one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Final

import typer

from acemq_amqp.cli.options import LOCALHOST, Database, Json, Url, Yes
from acemq_amqp.cli.outcomes import DONE, WRONG
from acemq_amqp.cli.places import event_log
from acemq_amqp.cli.printing import counted, say, say_json, say_table
from acemq_amqp.eventlog import Lag, Moved

app = typer.Typer(help="Groups that read event logs.", no_args_is_help=True)

_TABLE: Final = "acemq_log"

Log = Annotated[str, typer.Argument(metavar="LOG", help="The event log.")]
Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group.")]
LogTable = Annotated[str, typer.Option("--table", help="What the log store's tables are called.")]
Partition = Annotated[str | None, typer.Option(help="One partition (lane); else all.")]


@app.command(name="list")
def list_(
    log: Log,
    url: Url = LOCALHOST,
    database: Database = "",
    table: LogTable = _TABLE,
    as_json: Json = False,
) -> int:
    """Lists the groups of a log: where each stands, whether it is read, how far it is behind."""
    with event_log(url, database, table) as client:
        groups = client.admin.consumer_groups(log)
    if as_json:
        say_json([asdict(each) for each in groups])
        return DONE
    rows = [
        (
            each.group,
            ", ".join(f"{stream}@{offset}" for stream, offset in each.stands.items()),
            ", ".join(each.readers) or "-",
            "? (the log was made anew)" if each.lag is None else _told(each.lag),
        )
        for each in groups
    ]
    say_table(("group", "stands at", "read by a member", "#behind"), rows)
    return DONE


@app.command()
def lag(
    log: Log,
    group: Group,
    partition: Partition = None,
    most: Annotated[
        int | None, typer.Option("--max", min=0, help="Exit with 1 where more are behind.")
    ] = None,
    url: Url = LOCALHOST,
    database: Database = "",
    table: LogTable = _TABLE,
    as_json: Json = False,
) -> int:
    """Tells how many messages a group has not acknowledged."""
    with event_log(url, database, table) as client:
        queue = client.queue(log).group(group)
        found = (queue if partition is None else queue.partition(partition)).lag()
    if as_json:
        say_json(asdict(found))
    else:
        say(f"{_about(found)}{counted(found.messages, 'message')} behind")
    return WRONG if most is not None and found.messages > most else DONE


@app.command()
def seek(
    log: Log,
    group: Group,
    timestamp: Annotated[
        str | None, typer.Option(help="The first that was pushed then: 2026-05-01T12:00:00Z.")
    ] = None,
    offset: Annotated[int | None, typer.Option(help="That offset.")] = None,
    to: Annotated[str | None, typer.Option(help="first or next.")] = None,
    back: Annotated[int | None, typer.Option(help="So many messages back.")] = None,
    partition: Partition = None,
    dry_run: Annotated[bool, typer.Option(help="Only tell what would move.")] = False,
    yes: Yes = False,
    url: Url = LOCALHOST,
    database: Database = "",
    table: LogTable = _TABLE,
    as_json: Json = False,
) -> int:
    """Moves a group, or one partition of it; what its readers have in flight is abandoned."""
    said = {"timestamp": timestamp, "offset": offset, "to": to, "back": back}
    options: dict[str, Any] = {name: each for name, each in said.items() if each is not None}
    options["partition"] = partition
    with event_log(url, database, table) as client:
        planned = client.admin.seek_consumer_group(group, log, {**options, "dry_run": True})
        if dry_run:
            return _moved(planned, "would move", as_json)
        if not yes:
            places = "; ".join(map(_place, planned))
            typer.confirm(f"Move group {group} ({places})?", abort=True, err=True)
        return _moved(client.admin.seek_consumer_group(group, log, options), "moved", as_json)


def _moved(moves: list[Moved], verb: str, as_json: bool) -> int:
    if as_json:
        say_json([asdict(each) for each in moves])
    for each in () if as_json else moves:
        say(f"{verb} {_place(each)}")
    return DONE


def _place(moved: Moved) -> str:
    of = moved.stream if moved.partition is None else f"{moved.partition} of {moved.stream}"
    return f"{of} from {moved.before} to {moved.after}"


def _told(lag: Lag) -> str:
    return f"{_about(lag)}{lag.messages}"


def _about(lag: Lag) -> str:
    return "" if lag.exact else "about "
