"""Transactional outbox: a message that is sent if, and only if, a transaction commits.

A record is a message already checked and encoded. ``store.add(record, connection=tx)`` writes it
in the transaction of the business's own change; a relay publishes it afterwards, under the same
id, until the broker has confirmed it. Records of one ordering key go out in the order in which
they were committed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from acemq_amqp import headers as names
from acemq_amqp.codec import Codec
from acemq_amqp.core.checks import checked_codec
from acemq_amqp.core.outgoing import Sending, checked_name, outgoing_of
from acemq_amqp.envelope import Envelope
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.fieldtable import decode_table
from acemq_amqp.patterns.connections import no_connection
from acemq_amqp.properties import Properties


class Origin(Protocol):
    """What :func:`record` asks of a connection, of either flavour."""

    @property
    def codec(self) -> Codec: ...
    @property
    def origin(self) -> str: ...


@dataclass(frozen=True, slots=True)
class OutboxRecord:
    """A message ready to be sent, made by :func:`record`.

    :ivar id: the message's id, the same whenever it is published
    :ivar headers: its headers, as a field table of AMQP
    :ivar ordering_key: records that share it are sent in order; ``""`` has no order
    """

    id: str
    exchange: str
    routing_key: str
    body: bytes = field(repr=False)
    content_type: str = ""
    headers: bytes = field(default=b"", repr=False)
    ordering_key: str = ""

    @property
    def envelope(self) -> Envelope:
        """The envelope it was recorded with, and what makes it a message of an event log."""
        values = decode_table(self.headers)
        envelope = Envelope.from_headers(values, self.routing_key, self.id)
        logged = {name: value for name, value in values.items() if name.startswith(names.LOG)}
        return envelope.with_(headers={**envelope.headers, **logged}) if logged else envelope


def record(
    connection: Origin,
    exchange: str,
    routing_key: str,
    payload: Any,
    *,
    envelope: Envelope | None = None,
    codec: Codec | None = None,
    ordering_key: str = "",
) -> OutboxRecord:
    """A message for the outbox, checked and encoded at once: what cannot be sent fails here.

    :param connection: whose codec and origin it has; nothing is sent on it
    :param exchange: ``""`` addresses queues by name
    :param envelope: identity and history other than a fresh one's
    :param ordering_key: records that share one are sent in the order of their commits
    :raises ConfigurationError: something in it cannot travel or be stored, or it has no place to go
    :raises EncodeError: the codec cannot write the payload
    """
    if not hasattr(connection, "codec") or not hasattr(connection, "origin"):
        raise no_connection(connection, "acemq_amqp.connect")
    if not checked_name(exchange, "an exchange") and routing_key == "":
        raise ConfigurationError(
            "acemq: an outbox record without an exchange and without a routing key goes nowhere: "
            "name the exchange, or a queue as the routing key"
        )
    chosen = connection.codec if codec is None else checked_codec(codec)
    sending = Sending(exchange, chosen, connection.origin)
    outgoing = outgoing_of(sending, payload, routing_key, envelope=envelope)
    properties = Properties.decode(outgoing.properties)
    made = OutboxRecord(
        outgoing.message_id,
        exchange,
        outgoing.routing_key,
        outgoing.body,
        properties.content_type or "",
        properties.headers.raw,
        ordering_key,
    )
    _refuse_unstorable(made)
    return made


def _refuse_unstorable(made: OutboxRecord) -> None:
    for name in ("id", "exchange", "routing_key", "content_type", "ordering_key"):
        value = getattr(made, name)
        if not isinstance(value, str) or "\0" in value or not _encodes(value):
            raise ConfigurationError(
                f"acemq: the {name.replace('_', ' ')} of an outbox record is {value!r}: give text "
                "that a database can keep, without NUL"
            )


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


# ---------------------------------------------------------------- stores


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A record as a relay claims it.

    :ivar seq: its place: rows of one ordering key are sent in this order
    :ivar attempts: how often it was refused
    :ivar age: seconds since it was added, by the store's clock
    """

    seq: int
    record: OutboxRecord
    attempts: int = 0
    age: float = 0.0


def pause_after(attempts: int) -> float:
    """Seconds for which a record is left alone: 1, 2, 4 ... 60.

    :param attempts: how often it had been refused before
    """
    return min(2.0 ** min(attempts, 6), 60.0)


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a relay got.

    :ivar left: seconds for which it may write, counted from before it asked
    """

    rows: Sequence[OutboxRow]
    left: float


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    """How an outbox stands.

    :ivar waiting: records that are to be sent
    :ivar set_aside: records that were refused too often
    :ivar lag: seconds that the oldest of those waiting has waited
    :ivar failing: those of the waiting that were refused already, and are tried again
    :ivar error: the last refusal of these
    """

    waiting: int
    set_aside: int
    lag: float
    failing: int = 0
    error: str = ""


@runtime_checkable
class OutboxStore(Protocol):
    """Where records wait. Relays, any number, share it by leases.

    What a relay claims is its own until the lease ends; a call of a relay whose lease was taken
    over changes nothing. ``add`` and ``add_many`` have done their work when they return, so both
    flavours call them alike; on an asynchronous connection they must be awaited. What a relay asks
    may be a plain ``def`` too, and is then called in a thread where it would hold up a loop.
    """

    @property
    def lease(self) -> float:
        """Seconds of a lease."""

    def add(self, record: OutboxRecord, *, connection: Any = None) -> Awaitable[None]:
        """Writes a record in the caller's transaction, which is neither begun nor ended here."""

    def add_many(
        self, records: Iterable[OutboxRecord], *, connection: Any = None
    ) -> Awaitable[None]:
        """Writes records in the caller's transaction, in their order."""

    async def claim(self, relay: str, most: int) -> Claimed:
        """Leases records that are due to a relay, oldest first: so many with, and without a key."""

    async def renew(self, relay: str, rows: Sequence[OutboxRow]) -> bool:
        """Begins the lease of what a relay holds anew; False where it is gone."""

    async def mark_published(self, relay: str, rows: Sequence[OutboxRow]) -> int:
        """Notes that the broker has confirmed rows; returns how many were still the relay's."""

    async def record_failure(self, relay: str, row: OutboxRow, error: str) -> bool:
        """Counts an attempt; True where the row is set aside now."""

    async def leave(self, relay: str, rows: Sequence[OutboxRow]) -> None:
        """Gives back what a relay holds, for others to take at once."""

    async def status(self) -> OutboxStatus:
        """How many wait, and how long."""

    async def purge(self) -> int:
        """Removes rows that were sent and kept long enough, some at a time; returns how many."""


@runtime_checkable
class HintingStore(Protocol):
    """An outbox whose commits can be told to the relays that wait for them."""

    def listen(self, hint: Callable[[], None]) -> Callable[[], None] | None:
        """Calls ``hint`` soon after a commit, from any thread, until the result is called.

        None where this store does not tell. Hints can be lost, and cost nothing where they are
        needless.
        """
