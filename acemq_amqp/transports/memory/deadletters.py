"""What becomes of a message that died in a queue: its headers, and the circles it may not run in.

As RabbitMQ writes them: ``x-death`` has an entry for each queue and reason, latest
first, with how often; the first death of all is told in headers of its own. The
expiration is taken off, or it would empty the dead-letter queue, and is kept in
the entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from acemq_amqp.transports.memory.messages import Message

_FIRST = "x-first-death-"
Death: TypeAlias = dict[str, Any]


def dead_letter(
    message: Message, reason: str, queue: str, exchange: str, key: str | None, now: float
) -> Message:
    """The message to publish to the dead-letter exchange.

    :param key: the queue's dead-letter routing key, or None to keep the message's own
    :param now: seconds since the epoch
    """
    properties = message.properties
    put = _with_death(properties.headers.values(), _death(message, reason, queue, now))
    headers = properties.headers.edited(drop=() if key is None else ("CC",), put=put)
    return Message(
        exchange,
        message.routing_keys if key is None else (key,),
        properties._replace(headers=headers, expiration=None),
        message.body,
    )


def _death(message: Message, reason: str, queue: str, now: float) -> Death:
    copies = message.properties.headers.get("CC")
    keys = [message.routing_keys[0], *(copies if isinstance(copies, list) else ())]
    death: Death = {
        "count": 1,
        "reason": reason,
        "queue": queue,
        "time": datetime.fromtimestamp(int(now), UTC),
        "exchange": message.exchange,
        "routing-keys": keys,
    }
    if message.properties.expiration is not None:
        death["original-expiration"] = message.properties.expiration
    return death


def _with_death(headers: Mapping[str, Any], death: Death) -> dict[str, Any]:
    earlier = headers.get("x-death")
    if not isinstance(earlier, list):
        first = {_FIRST + what: death[what] for what in ("reason", "queue", "exchange")}
        return {"x-death": [death], **first}
    same = [d for d in earlier if _is_same(d, death)]
    others = [d for d in earlier if not _is_same(d, death)]
    latest = {**same[0], "count": sum(map(_count, same)) + 1} if same else death
    return {"x-death": [latest, *others]}


def _is_same(earlier: object, death: Death) -> bool:
    return isinstance(earlier, dict) and all(
        earlier.get(what) == death[what] for what in ("queue", "reason")
    )


def _count(death: Death) -> int:
    count = death.get("count", 1)
    return count if isinstance(count, int) else 1


def goes_in_circles(message: Message, queue: str) -> bool:
    """Whether a dead letter was in this queue before and nobody rejected it since.

    Such a message would run for ever, so RabbitMQ drops it.
    """
    deaths = message.properties.headers.get("x-death")
    if not isinstance(deaths, list):
        return False
    for death in deaths:
        if not isinstance(death, dict) or death.get("reason") == "rejected":
            return False
        if death.get("queue") == queue:
            return True
    return False
