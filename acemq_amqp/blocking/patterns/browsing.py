"""The blocking face of looking into a queue."""

from __future__ import annotations

from acemq_amqp.blocking.connection import Connection
from acemq_amqp.blocking.patterns.connections import checked_connection
from acemq_amqp.flavours.threads import drive
from acemq_amqp.message import Message
from acemq_amqp.patterns.browsing import browse as core_browse


def browse(connection: Connection, queue: str, *, limit: int = 0) -> list[Message]:
    """The messages that are ready in a classic queue, oldest first; all are still there afterwards.

    They are out of others' reach while it looks, and marked as redelivered from then on. Each
    ``payload`` is the body as it is.

    :param limit: messages at most; 0: as many as there were when it began
    :raises ConfigurationError: a queue where looking would lose or move messages: a quorum queue, a
        stream, one with a length limit, or one whose type the broker does not tell this login
    :raises NotFound: there is no such queue
    """
    return drive(core_browse(checked_connection(connection)._core, queue, limit=limit))
