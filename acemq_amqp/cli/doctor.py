"""``acemq doctor``: whether a broker can be used as the toolkit uses it."""

from __future__ import annotations

import platform
import secrets
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Annotated

import typer

from acemq_amqp.address import parse_address
from acemq_amqp.blocking import Connection, Topology
from acemq_amqp.cli.options import LOCALHOST, Json
from acemq_amqp.cli.outcomes import DONE, WRONG, one_line
from acemq_amqp.cli.places import broker
from acemq_amqp.cli.printing import say_json, say_table
from acemq_amqp.errors import AceMQError, BrokerError


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look found."""

    check: str
    ok: bool
    detail: str


def doctor(
    url: Annotated[
        str, typer.Argument(envvar="AMQP_URL", show_default="localhost", help="The broker.")
    ] = LOCALHOST,
    as_json: Json = False,
) -> int:
    """Connects, and tells versions, alarms and what this login may do. Leaves nothing behind."""
    with broker(url) as mq:
        findings = [*_versions(mq, url), *_examined(mq)]
    if as_json:
        say_json([asdict(each) for each in findings])
    else:
        rows = [("ok" if each.ok else "WRONG", each.check, each.detail) for each in findings]
        say_table(("", "check", "found"), rows)
    return DONE if all(each.ok for each in findings) else WRONG


def _versions(mq: Connection, url: str) -> Iterator[Finding]:
    drivers = ", ".join(f"{name} {version(name)}" for name in ("aio-pika", "aiormq", "pika"))
    ours = f"acemq-amqp {version('acemq-amqp')}, Python {platform.python_version()}, {drivers}"
    yield Finding("this side", True, ours)
    told = mq.broker
    if told is not None:
        number = ".".join(map(str, told.version))
        yield Finding(
            "broker", True, f"{told.product} {number} at {parse_address(url).shown} as {told.login}"
        )


def _examined(mq: Connection) -> Iterator[Finding]:
    health = mq.health()
    yield Finding("answers", not health.problems, "; ".join(health.problems) or "in time")
    queue = f"acemq-doctor.{secrets.token_hex(4)}"
    mine = Topology().queue(queue, exclusive=True)
    yield _tried("may declare", lambda: mq.declare(mine), "a queue of its own")
    yield _tried("may publish", lambda: _publish(mq, queue), "confirmed; no alarm")
    yield _tried("may consume", lambda: _take(mq, queue), "what it published came back")
    yield _tried("may delete", lambda: mq.delete_queue(queue), "nothing is left")


def _publish(mq: Connection, queue: str) -> None:
    publisher = mq.publisher("", queue, mandatory=False, persistent=False)
    try:
        publisher.send({"from": "acemq doctor"})
    except BrokerError:
        if mq.blocked_reason is None:
            raise
        raise AceMQError(f"the broker has paused publishing: {mq.blocked_reason}") from None


def _take(mq: Connection, queue: str) -> None:
    delivery = mq.pull(queue)
    if delivery is None:
        raise AceMQError(f"acemq: nothing was in {queue!r}")
    delivery.ack()


def _tried(check: str, call: Callable[[], object], detail: str) -> Finding:
    try:
        call()
    except AceMQError as failure:
        return Finding(check, False, one_line(str(failure)).removeprefix("acemq: "))
    return Finding(check, True, detail)
