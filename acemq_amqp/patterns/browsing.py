"""Looking into a queue without taking anything out of it.

AMQP has no such thing: a message is got, and given back. On a classic queue it is then in its
place again, marked as redelivered and otherwise as it was. On other queues a look leaves traces,
or costs the message; they are refused.
"""

from __future__ import annotations

from acemq_amqp.core.checks import whole
from acemq_amqp.core.connection import Connection
from acemq_amqp.core.pulling import Delivery
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.message import Message
from acemq_amqp.naming import checked_name
from acemq_amqp.patterns.connections import checked_connection
from acemq_amqp.patterns.queue_kind import kind_of


async def browse(connection: Connection, queue: str, *, limit: int = 0) -> list[Message]:
    """The messages that are ready in a classic queue, oldest first; all are still there afterwards.

    They are out of others' reach while it looks, and marked as redelivered from then on. Each
    ``payload`` is the body as it is.

    :param limit: messages at most; 0: as many as there were when it began
    :raises ConfigurationError: a queue where looking would lose or move messages: a quorum queue, a
        stream, one with a length limit, or one whose type the broker does not tell this login
    :raises NotFound: there is no such queue
    """
    connection = checked_connection(connection)
    limit = whole(limit, "limit", least=0)
    checked_name(queue, "queue")
    await refuse_lookers(connection, queue)
    count = await connection.message_count(queue)
    held: list[Delivery] = []
    try:
        while len(held) < min(count, limit or count):
            delivery = await connection.pull(queue)
            if delivery is None:
                break
            held.append(delivery)
        return [each.message() for each in held]
    finally:
        for each in held:
            await each.requeue()


async def refuse_lookers(connection: Connection, queue: str) -> None:
    """Lets queues pass where a message that is looked at stays what and where it is.

    :raises ConfigurationError: another one
    """
    kind = await kind_of(connection, queue)
    if kind.keeps_what_is_given_back:
        return
    raise ConfigurationError(f"acemq: {queue!r} is not looked into: {_WHY[kind.name]}")


_WHY = {
    "classic": (
        "it has a length limit, and a message that is given back to a full queue is dropped; "
        "raise the limit first, or replay it whole"
    ),
    "quorum": (
        "it is a quorum queue, which counts every look as a delivery and drops a message after its "
        "limit; replay it whole, without a filter"
    ),
    "stream": "it is a stream; consume it with x-stream-offset='first'",
    "unknown": (
        "the broker does not tell its type, and looking into a quorum queue can lose messages; "
        "use a login that may configure it, or replay it whole"
    ),
}
