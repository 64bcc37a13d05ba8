"""``acemq dlq``: dead letters and parked messages, looked at, sent back, set aside, dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer

from acemq_amqp.blocking import Connection, Message
from acemq_amqp.blocking.patterns import ReplayResult, browse, replay
from acemq_amqp.cli.messages import as_data, headline, in_full
from acemq_amqp.cli.options import LOCALHOST, Json, Url, Yes, duration, given
from acemq_amqp.cli.outcomes import DONE, WRONG, complain
from acemq_amqp.cli.places import broker
from acemq_amqp.cli.printing import counted, say, say_json, say_table
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.naming import dead_letter_queue, parked_queue
from acemq_amqp.patterns.replay_plan import source_of

app = typer.Typer(help="Dead letters and parked messages.", no_args_is_help=True)

SetAside = Annotated[
    str, typer.Argument(metavar="QUEUE", help="Such as orders.dlq or orders.parked.")
]
Ids = Annotated[
    list[str] | None, typer.Option("--id", help="Only the message of this id; may be repeated.")
]
Containing = Annotated[
    str | None, typer.Option("--error", help="Only messages whose error contains this text.")
]
OfType = Annotated[str | None, typer.Option("--type", help="Only messages of this type.")]
Most = Annotated[int, typer.Option("--limit", min=0, help="Messages at most; 0: all.")]


@app.command(name="list")
def list_(
    queues: Annotated[
        list[str],
        typer.Argument(metavar="QUEUE...", help="Sources (orders), or orders.dlq itself."),
    ],
    url: Url = LOCALHOST,
    as_json: Json = False,
) -> int:
    """Counts the dead letters and parked messages of queues; exit code 1 where one has neither."""
    with broker(url) as mq:
        around = [[(name, _count(mq, name)) for name in _around(each)] for each in queues]
    found = [place for places in around for place in places]
    if as_json:
        say_json([{"queue": name, "messages": count} for name, count in found])
    else:
        rows = [(name, "no such queue" if count is None else count) for name, count in found]
        say_table(("queue", "#messages"), rows)
    there = all(any(count is not None for _, count in places) for places in around)
    return DONE if there else WRONG


@app.command()
def show(
    queue: SetAside,
    limit: Most = 20,
    id: Ids = None,
    error: Containing = None,
    type: OfType = None,
    full: Annotated[bool, typer.Option("--full", help="All headers, and the body.")] = False,
    url: Url = LOCALHOST,
    as_json: Json = False,
) -> int:
    """Shows messages, oldest first, and why they are there. All stay where they are.

    Only classic queues are looked into: a quorum queue counts each look, and loses the message in
    the end. The messages are marked as redelivered, and out of others' reach while it looks.
    """
    wanted = _filter(id, error, type)
    with broker(url) as mq:
        seen = browse(mq, queue, limit=0 if wanted else limit)
    found = [each for each in seen if wanted is None or wanted(each)][: limit or None]
    if as_json:
        say_json([as_data(each) for each in found])
    elif full:
        for each in found:
            say(in_full(each))
    else:
        columns = ("id", "type", "#attempt", "#age", "#bytes", "error")
        say_table(columns, map(headline, found))
    return DONE


@app.command(name="replay")
def replay_(
    queue: SetAside,
    exchange: Annotated[str, typer.Option(help="An exchange to send them to instead.")] = "",
    routing_key: Annotated[
        str | None, typer.Option(help="The key there; without an exchange, a queue's name.")
    ] = None,
    limit: Most = 0,
    deadline: Annotated[
        str | None, typer.Option(help="Begin no further one after it: 90s, 2h.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Messages a second at most.")] = None,
    id: Ids = None,
    error: Containing = None,
    type: OfType = None,
    keep_attempt: Annotated[bool, typer.Option(help="Keep attempt and error.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    url: Url = LOCALHOST,
    as_json: Json = False,
) -> int:
    """Sends messages back to the queue that they came from, at attempt 1.

    Each is confirmed there before it is taken off here. Filters want a classic queue.
    """
    until = None if deadline is None else duration(deadline, "--deadline")
    wanted = _filter(id, error, type)
    if not exchange and routing_key is None:
        _source(queue, "say with --exchange or --routing-key where its messages go")
    with broker(url) as mq:
        result = replay(
            mq,
            queue,
            exchange=exchange,
            routing_key=routing_key,
            limit=limit,
            deadline=until,
            rate=rate,
            only=wanted,
            restart=not keep_attempt,
            dry_run=dry_run,
        )
    _tell(result, "replayed", as_json)
    return DONE


@app.command()
def park(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Such as orders.dlq.")],
    limit: Most = 0,
    id: Ids = None,
    error: Containing = None,
    type: OfType = None,
    url: Url = LOCALHOST,
    as_json: Json = False,
) -> int:
    """Moves dead letters to the parking queue, for a person to look at; attempt and error stay."""
    wanted = _filter(id, error, type)
    place = parked_queue(_source(queue, "only dead letters are parked"))
    with broker(url) as mq:
        result = replay(mq, queue, routing_key=place, limit=limit, only=wanted, restart=False)
    _tell(result, "parked", as_json)
    return DONE


@app.command()
def purge(queue: SetAside, yes: Yes = False, url: Url = LOCALHOST, as_json: Json = False) -> int:
    """Drops all messages of a dead-letter or parking queue, for good."""
    _source(queue, "nothing is dropped, lest it be the wrong one")
    with broker(url) as mq:
        count = mq.message_count(queue)
        if not yes and count:
            typer.confirm(f"Drop {counted(count, 'message')} of {queue}?", abort=True, err=True)
        dropped = mq.purge(queue)
    if as_json:
        say_json({"queue": queue, "dropped": dropped})
    else:
        say(f"{counted(dropped, 'message')} of {queue} dropped")
    return DONE


def _around(queue: str) -> list[str]:
    if queue.endswith((".dlq", ".parked")):
        return [queue]
    return [dead_letter_queue(queue), parked_queue(queue)]


def _count(mq: Connection, queue: str) -> int | None:
    return mq.message_count(queue) if mq.queue_exists(queue) else None


def _source(queue: str, otherwise: str) -> str:
    """The queue that a dead-letter or parking queue belongs to.

    :raises ConfigurationError: by its name it is neither
    """
    try:
        return source_of(queue)
    except ConfigurationError:
        raise ConfigurationError(
            f"acemq: {queue!r} is by its name no dead-letter queue, such as orders.dlq, nor a "
            f"parking queue, such as orders.parked: {otherwise}"
        ) from None


def _filter(
    ids: list[str] | None, with_error: str | None, of_type: str | None
) -> Callable[[Message], bool] | None:
    error, type = given(with_error, "--error"), given(of_type, "--type")
    for each in ids or ():
        given(each, "--id")
    if not (ids or error or type):
        return None
    chosen = frozenset(ids or ())

    def wanted(message: Message) -> bool:
        told = message.envelope
        return (
            (not chosen or told.id in chosen)
            and error in told.error
            and (not type or told.type == type)
        )

    return wanted


def _tell(result: ReplayResult, verb: str, as_json: bool) -> None:
    if as_json:
        say_json(asdict(result))
        return
    would = "would be " if result.dry_run else ""
    told = f"{counted(result.replayed, 'message')} of {result.queue} {would}{verb}"
    if result.passed_over:
        told += f", {result.passed_over} passed over"
    say(told + (f"; stopped by the {result.stopped}" if result.stopped else ""))
    if result.perhaps_twice:
        complain(f"{result.perhaps_twice} of them may be there twice, under their ids")
