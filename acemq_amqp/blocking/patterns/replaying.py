"""The blocking face of replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from acemq_amqp.blocking.connection import Connection
from acemq_amqp.blocking.patterns.connections import checked_connection
from acemq_amqp.durations import Duration
from acemq_amqp.flavours.threads import drive
from acemq_amqp.message import Message
from acemq_amqp.patterns.replay_plan import ReplayResult
from acemq_amqp.patterns.replaying import replay as core_replay


def replay(
    connection: Connection,
    queue: str,
    *,
    exchange: str = "",
    routing_key: str | None = None,
    limit: int = 0,
    deadline: Duration | None = None,
    rate: float | None = None,
    only: Callable[[Message], Any] | None = None,
    restart: bool = True,
    dry_run: bool = False,
) -> ReplayResult:
    """Moves dead letters or parked messages back to the queue they came from; none is lost.

    Each is confirmed in its place before the original is acknowledged, and keeps its body, id,
    properties and headers; where a connection is lost in between it can be in both. A queue that
    ends in ``.dlq`` or ``.parked`` goes back to the one it is named after, unless a place is given.

    :param exchange: another place; ``""`` addresses the queue that ``routing_key`` names
    :param routing_key: the key there; to an exchange, the key each first arrived with by default
    :param limit: messages at most; 0: all that were there when it began
    :param deadline: seconds after which it begins no further one
    :param rate: messages a second at most
    :param only: takes a ``Message``, whose payload is the body as it is, and says whether it goes.
        The others are held until the end, and are then in their places again
    :param restart: attempt 1 again and no error; False keeps both
    :param dry_run: count what would be moved and change nothing. Without ``only`` it does not even
        look at the messages
    :raises ConfigurationError: no place can be told; or ``only`` for a queue where a look costs
        something, as for :func:`browse`
    :raises NotFound: the queue, or the one to replay to, is not there
    :raises ReplayStopped: something failed on the way; ``.result`` has what was done
    """
    return drive(
        core_replay(
            checked_connection(connection)._core,
            queue,
            exchange=exchange,
            routing_key=routing_key,
            limit=limit,
            deadline=deadline,
            rate=rate,
            only=only,
            restart=restart,
            dry_run=dry_run,
        )
    )
