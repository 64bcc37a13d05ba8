"""The keys of claim checks that messages name, in the places where messages can wait for long.

Each place is seen whole, or an error says why not: a payload is only removed because nothing names
it, so half a look is worth nothing.
"""

from __future__ import annotations

import queue as queues
from dataclasses import dataclass
from typing import Final

from acemq_amqp.blocking import Connection, Message
from acemq_amqp.blocking.patterns import browse
from acemq_amqp.codecs.bytes import BytesCodec
from acemq_amqp.errors import BrokerError, ConfigurationError
from acemq_amqp.patterns import claim_key_of
from acemq_amqp.patterns.waiting import driven
from acemq_stores import SqlOutboxStore

#: A stream has no end to be seen; after so many seconds without a message it was read.
_QUIET: Final = 1.0
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
    return _seen("queue", queue, count, [each.body for each in browse(mq, queue)])


def in_stream(mq: Connection, stream: str) -> Named:
    """The keys in a stream, from its first message to what was its last when this began.

    :raises BrokerError: fewer messages were seen than it holds
    """
    count = mq.message_count(stream)
    arrived: queues.SimpleQueue[bytes] = queues.SimpleQueue()

    def handle(message: Message) -> None:
        arrived.put(message.body)

    bodies: list[bytes] = []
    with mq.consume(
        stream,
        handle,
        codec=BytesCodec(),
        prefetch=_AHEAD,
        args={"x-stream-offset": "first"},
        declare=False,
    ):
        try:
            while True:
                patience = _SILENT if len(bodies) < count else _QUIET
                bodies.append(arrived.get(timeout=patience))
        except queues.Empty:
            return _seen("stream", stream, count, bodies)


def _seen(kind: str, name: str, count: int, bodies: list[bytes]) -> Named:
    if len(bodies) < count:
        raise BrokerError(
            f"acemq: {kind} {name!r} holds {count} messages and {len(bodies)} were seen: others "
            "take from it; nothing was removed. Stop them, or leave it out and give a longer "
            "--older-than"
        )
    keys = frozenset(key for body in bodies if (key := claim_key_of(body)) is not None)
    return Named(f"{kind} {name}", len(bodies), keys)
