"""Walks the table in docs/reply-codes.md: has the broker give each code, and looks what comes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from acemq_amqp import Topology
from acemq_amqp.transports.wire.frames import ack_frame, get_frame
from tests.chaos.ledger import Ledger
from tests.chaos.load import Load
from tests.chaos.wreck import write_on_channel
from tests.contract import threads
from tests.contract.waiting import until
from tests.support.rabbitmq import RabbitMQ

Enter = Callable[[Ledger, str], None]
#: Brings a code about; the last parameter tells whether it has come.
Force = Callable[[Load, RabbitMQ, Callable[[], bool]], Coroutine[Any, Any, None]]

_DOCUMENT = Path(__file__).parents[2] / "docs" / "reply-codes.md"
#: Told on the call itself; tests/contract/test_refusals.py has them.
_CLOSE_NOTHING = {311, 312}
#: What RabbitMQ was never seen to give.
_NEVER_SEEN = {502}
_METHOD, _BODY = 1, 3


def table() -> dict[int, str]:
    """What each code closes, as the document has it."""
    rows = [line.split("|") for line in _DOCUMENT.read_text().splitlines() if "|" in line]
    return {int(row[1]): row[3].strip() for row in rows if row[1].strip().isdigit()}


def frame(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def method(channel: int, class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    return frame(_METHOD, channel, struct.pack(">HH", class_id, method_id) + arguments)


def writing(make: Callable[[int], bytes]) -> Force:
    """Forces a code by frames on the consumer's channel."""

    async def force(load: Load, node: RabbitMQ, come: Callable[[], bool]) -> None:
        write_on_channel(load.consumer, make)

    return force


async def without_permission(load: Load, node: RabbitMQ, come: Callable[[], bool]) -> None:
    """Takes the permission to read for a moment, in which the consumer's channel reads."""
    await threads.run(lambda: node.eval(_permission("^$")))
    write_on_channel(load.consumer, lambda channel: get_frame(channel, f"{load.queue}.dlq"))
    await until(come, "the refusal")
    await threads.run(lambda: node.eval(_permission(".*")))


def _permission(read: str) -> str:
    words = ", ".join(f'<<"{word}">>' for word in ("guest", "/", ".*", ".*", read, "tests"))
    return f"rabbit_auth_backend_internal:set_permissions({words})"


async def locked(load: Load, node: RabbitMQ, come: Callable[[], bool]) -> None:
    async with await load.flavour.connect(node.url) as somebody_else:
        theirs = f"{load.queue}.theirs"
        await somebody_else.declare(Topology().queue(theirs, durable=False, exclusive=True))
        write_on_channel(load.consumer, lambda channel: get_frame(channel, theirs))
        await until(come, "the refusal")


async def consume_twice(load: Load, node: RabbitMQ, come: Callable[[], bool]) -> None:
    """Two consumers of one tag on one channel."""
    queue = load.queue.encode()
    asked = b"\x00\x00" + bytes([len(queue)]) + queue + b"\x05twice" + b"\x00" + b"\x00" * 4
    write_on_channel(load.consumer, lambda channel: method(channel, 60, 20, asked) * 2)


async def thrown_out(load: Load, node: RabbitMQ, come: Callable[[], bool]) -> None:
    await threads.run(node.close_connections)


async def channels_crash(load: Load, node: RabbitMQ, come: Callable[[], bool]) -> None:
    await threads.run(lambda: node.eval("[exit(C, crash) || C <- rabbit_channel:list()], ok"))


FORCES: dict[int, Force] = {
    320: thrown_out,
    403: without_permission,
    404: writing(lambda channel: get_frame(channel, "no such queue")),
    405: locked,
    406: writing(lambda channel: ack_frame(channel, 1_000_000, False)),
    501: writing(lambda channel: frame(_METHOD, channel, b"\x00\x3c\x00\x0a", end=b"\x00")),
    503: writing(lambda channel: method(channel, 60, 11)),
    504: writing(lambda channel: method(channel, 20, 10, b"\x00")),
    505: writing(lambda channel: frame(_BODY, channel, b"adrift")),
    530: consume_twice,
    540: writing(lambda channel: method(channel, 60, 10, b"\x00\x00\x00\x01\x00\x01\x00")),
    541: channels_crash,
}


def test_every_code_of_the_document_is_walked() -> None:
    assert table().keys() == FORCES.keys() | _CLOSE_NOTHING | _NEVER_SEEN
    assert all(table()[code] == "nothing" for code in _CLOSE_NOTHING)


@pytest.mark.parametrize("code", FORCES)
async def test_a_reply_code(
    load: Load,
    code: int,
    own_rabbitmq: RabbitMQ,
    enter: Enter,
    caplog: pytest.LogCaptureFixture,
) -> None:
    closes = table()[code]
    await load.open(own_rabbitmq.url)
    load.start()
    await load.flows()
    before = await load.recoveries()
    await FORCES[code](load, own_rabbitmq, lambda: told(caplog, code))
    await until(lambda: told(caplog, code), f"a log line that tells of {code}")
    if closes == "connection":
        await load.recovers(before)
    await load.flows()
    if closes == "channel":
        assert await load.recoveries() == before
    await load.finish()
    enter(load.ledger, own_rabbitmq.version)


def told(caplog: pytest.LogCaptureFixture, code: int) -> bool:
    ours = [record for record in caplog.records if record.name.startswith("acemq_amqp")]
    return any(f"({code}: " in record.getMessage() for record in ours)
