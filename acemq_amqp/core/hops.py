"""A hop: the same message on another queue, with every property and header it came with.

Received header bytes are reused; only what would hurt on the way is taken off, and
kept under a name of ours where it may matter later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acemq_amqp import headers
from acemq_amqp.core.ports import Arrival, Outgoing
from acemq_amqp.core.settlement import Hop
from acemq_amqp.envelope import Envelope

#: CC and BCC would copy the message at each hop; the counts of a republished message are believed
_NEVER_TRAVEL = frozenset({"CC", "BCC", "x-delivery-count", "x-acquired-count"})
_PERSISTENT = 2
_DEATHS = "x-death"


def hop_of(arrival: Arrival, envelope: Envelope, hop: Hop, *, queue: str, login: str) -> Outgoing:
    """The message to publish for a hop.

    :param envelope: as read from the arrival; a foreign message keeps this identity and age
    :param queue: the queue it was consumed from
    :param login: this connection's; another ``user_id`` would be refused for ever
    """
    properties = arrival.properties
    came = properties.headers.values()
    drop = set(_NEVER_TRAVEL)
    put = _first_hop(arrival, envelope, came)
    if properties.expiration is not None:
        put[headers.EXPIRATION] = properties.expiration
    foreign = properties.user_id is not None and properties.user_id != login
    if foreign:
        put[headers.USER_ID] = properties.user_id
    if hop.rung is not None and _DEATHS in came:
        _forget_deaths(came[_DEATHS], queue, drop, put)
    put.update(hop.put)
    travelling = properties._replace(
        headers=properties.headers.edited(drop, put),
        delivery_mode=_PERSISTENT,
        expiration=None,
        user_id=None if foreign else properties.user_id,
    )
    return Outgoing("", hop.target, properties.message_id or "", travelling.encode(), arrival.body)


def _first_hop(arrival: Arrival, envelope: Envelope, came: Mapping[str, Any]) -> dict[str, Any]:
    """Identity and origin, for a message that does not carry them yet."""
    read: dict[str, Any] = {
        headers.ID: envelope.id,
        headers.TYPE: envelope.type,
        headers.FIRST_SEEN: round(envelope.first_seen.timestamp() * 1000),
    }
    if headers.EXCHANGE not in came and headers.ROUTING_KEY not in came:
        read |= {headers.EXCHANGE: arrival.exchange, headers.ROUTING_KEY: arrival.routing_key}
    # empty text is absent on this wire, never ""
    return {name: value for name, value in read.items() if value != "" and came.get(name) != value}


def _forget_deaths(deaths: Any, queue: str, drop: set[str], put: dict[str, Any]) -> None:
    """RabbitMQ 3.10 takes a death on the target queue for a cycle when the rung expires.

    Entries that no broker wrote are taken too: it would fail on them, and drop the message.
    """
    if not isinstance(deaths, list):
        return
    others = [death for death in deaths if _queue_of(death) not in (queue, None)]
    if len(others) == len(deaths):
        return
    if others:
        put[_DEATHS] = others
    else:
        drop.add(_DEATHS)


def _queue_of(death: Any) -> str | None:
    queue = death.get("queue") if isinstance(death, dict) else None
    return queue if isinstance(queue, str) else None
