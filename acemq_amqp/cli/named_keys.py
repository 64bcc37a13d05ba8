"""The keys of claim checks that messages name, in the places where messages can wait for long.

Each place is seen whole, or an error says why not: a payload is only removed because nothing names
it, so half a look is worth nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from acemq_amqp.blocking import Connection
from acemq_amqp.blocking.patterns import browse
from acemq_amqp.core.connection import Connection as CoreConnection
from acemq_amqp.core.reading import offset_of
from acemq_amqp.errors import BrokerError, ConfigurationError
from acemq_amqp.flavours.threads import drive
from acemq_amqp.offsets import First
from acemq_amqp.patterns import claim_key_of
from acemq_amqp.patterns.waiting import driven
from acemq_stores import SqlOutboxStore

#: A stream that gives nothing for so long, in seconds, is not read to its end.
_SILENT: Final = 15.0
_AHEAD: Final = 500


@dataclass(frozen=True, slots=True)
class Named:
    """A place that was seen whole, and the keys that it names."""

    place: str
    messages: int
    keys: frozenset[str]


def in_outbox(outbox: SqlOutboxStore, table: str) -> Named:
    """The keys in an outbox: of records that wait, were sent, were set aside.

    :raises StoreError: it cannot be read
    """
    keys = driven(outbox.claims())
    return Named(f"outbox {table}", len(keys), frozenset(keys))


def in_queue(mq: Connection, queue: str) -> Named:
    """The keys in a classic queue without consumers; every message stays in its place.

    :raises ConfigurationError: it is another kind of queue, or has consumers
    :raises BrokerError: fewer messages were seen than it holds
    """
    consumers = mq.consumer_count(queue)
    if consumers:
        raise ConfigurationError(
            f"acemq: queue {queue!r} has {consumers} consumers, and what they hold is not to be "
            "seen; nothing was removed. Leave it out: --older-than has to be longer than a "
            "message's life there"
        )
    count = mq.message_count(queue)
    found = browse(mq, queue)
    if len(found) < count:
        raise _incomplete("queue", queue, count, len(found))
    return Named(f"queue {queue}", len(found), _keys_in(each.body for each in found))


def in_stream(mq: Connection, stream: str) -> Named:
    """The keys in a stream, from its first message to what was its last when this began.

    :raises BrokerError: it cannot be read, or not to its end
    """
    return drive(_in_stream(mq._core, stream))


async def _in_stream(mq: CoreConnection, stream: str) -> Named:
    tail = (await mq.ends(stream)).tail
    keys: set[str] = set()
    seen, at = 0, -1
    reader = await mq.read(stream, First, prefetch=_AHEAD)
    try:
        while at < tail:
            taken = await reader.take(_AHEAD, mq.work.clock.monotonic() + _SILENT)
            if not taken:
                raise _incomplete("stream", stream, tail + 1, at + 1)
            keys.update(_keys_in(each.body for each in taken))
            seen, at = seen + len(taken), offset_of(taken[-1])
    finally:
        await reader.close()
    return Named(f"stream {stream}", seen, frozenset(keys))


def _keys_in(bodies: Iterable[bytes]) -> frozenset[str]:
    return frozenset(key for body in bodies if (key := claim_key_of(body)) is not None)


def _incomplete(kind: str, name: str, count: int, seen: int) -> BrokerError:
    return BrokerError(
        f"acemq: {kind} {name!r} holds {count} messages and {seen} were seen, so that what the "
        "others name is not known; nothing was removed. If others take from it stop them, or "
        "leave it out and give a longer --older-than"
    )
