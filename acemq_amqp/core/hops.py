"""A hop: the same message on another queue, with every property and header it came with.

Received header bytes are reused; only what would hurt on the way is taken off, and
kept under a name of ours where it may matter later.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
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
    came = arrival.properties.headers.values()
    drop = set(_NEVER_TRAVEL)
    put = _identity(envelope, came) | _origin(arrival, came)
    if hop.rung is not None and _DEATHS in came:
        _forget_deaths(came[_DEATHS], queue, drop, put)
    put.update(hop.put)
    return _travelling(arrival, "", hop.target, drop, put, login)


@dataclass(frozen=True, slots=True)
class Onward:
    """Where a message taken by hand goes on to, and what is changed of its headers."""

    arrival: Arrival
    exchange: str
    routing_key: str
    put: Mapping[str, Any] = field(default_factory=dict)
    drop: frozenset[str] = frozenset()


def onward_of(onward: Onward, envelope: Envelope, login: str) -> Outgoing:
    """The message to publish so that it goes on whole; otherwise as :func:`hop_of`.

    What the broker itself dead-lettered tells by its deaths where it first arrived.
    """
    arrival = onward.arrival
    came = arrival.properties.headers.values()
    put = _identity(envelope, came) | (_before_deaths(came) or _origin(arrival, came))
    put |= onward.put
    drop = _NEVER_TRAVEL | onward.drop
    return _travelling(arrival, onward.exchange, onward.routing_key, drop, put, login)


def _travelling(
    arrival: Arrival,
    exchange: str,
    routing_key: str,
    drop: AbstractSet[str],
    put: dict[str, Any],
    login: str,
) -> Outgoing:
    """The same message elsewhere, without what would hurt on the way or there."""
    properties = arrival.properties
    if properties.expiration is not None:
        put.setdefault(headers.EXPIRATION, properties.expiration)
    foreign = properties.user_id is not None and properties.user_id != login
    if foreign:
        put.setdefault(headers.USER_ID, properties.user_id)
    travelling = properties._replace(
        headers=properties.headers.edited(drop, put),
        delivery_mode=_PERSISTENT,
        expiration=None,
        user_id=None if foreign else properties.user_id,
    )
    message_id = properties.message_id or ""
    return Outgoing(exchange, routing_key, message_id, travelling.encode(), arrival.body)


def _identity(envelope: Envelope, came: Mapping[str, Any]) -> dict[str, Any]:
    """Id, type and age, for a message that does not carry them yet."""
    read: dict[str, Any] = {
        headers.ID: envelope.id,
        headers.TYPE: envelope.type,
        headers.FIRST_SEEN: round(envelope.first_seen.timestamp() * 1000),
    }
    # empty text is absent on this wire, never ""
    return {name: value for name, value in read.items() if value != "" and came.get(name) != value}


def _origin(arrival: Arrival, came: Mapping[str, Any]) -> dict[str, Any]:
    """Where it first arrived, unless an earlier hop has noted that."""
    return _noted(arrival.exchange, arrival.routing_key, came)


def _noted(exchange: str, routing_key: str, came: Mapping[str, Any]) -> dict[str, Any]:
    if headers.EXCHANGE in came or headers.ROUTING_KEY in came:
        return {}
    read = {headers.EXCHANGE: exchange, headers.ROUTING_KEY: routing_key}
    return {name: value for name, value in read.items() if value}


def _before_deaths(came: Mapping[str, Any]) -> dict[str, Any]:
    """The place that its first death names: exchange and key of its publisher."""
    place = first_place(came)
    return _noted(*place, came) if place else {}


def first_place(came: Mapping[str, Any]) -> tuple[str, str] | None:
    """Exchange and key with which a message came before the broker dead-lettered it; else None."""
    deaths = came.get(_DEATHS)
    first = deaths[-1] if isinstance(deaths, list) and deaths else None
    if not isinstance(first, dict):
        return None
    exchange, keys = first.get("exchange"), first.get("routing-keys")
    key = keys[0] if isinstance(keys, list) and keys else None
    return (exchange, key) if isinstance(exchange, str) and isinstance(key, str) else None


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
