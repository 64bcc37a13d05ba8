"""What becomes of a message that could not be handled: tried again, or a dead letter.

Decisions, from values to values. A dead letter is an outbox record, committed with the position
that passes the message: it is neither lost nor handled again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from acemq_amqp import headers
from acemq_amqp.ack import Ack, AckKind, decision_of, described
from acemq_amqp.envelope import fresh_id
from acemq_amqp.errors import DecodeError, FatalError
from acemq_amqp.eventlog.records import LogRecord
from acemq_amqp.naming import dead_letter_queue
from acemq_amqp.patterns.outbox import OutboxRecord

log = logging.getLogger("acemq_amqp")

_FOR_GOOD: Final = (AckKind.REJECT, AckKind.PARK, AckKind.FATAL, AckKind.UNDECODABLE)


@dataclass(frozen=True, slots=True)
class Done:
    """It is handled."""


@dataclass(frozen=True, slots=True)
class Again:
    """It is handled again, so many seconds later; ``counts`` where this was an attempt."""

    delay: float
    reason: str
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Dead:
    """It is given up."""

    reason: str


Verdict = Done | Again | Dead


def verdict_of(answer: object, attempt: int, *, limit: int, delay: float) -> Verdict:
    """What a handler's answer, or what it raised, means.

    :param attempt: 1 for the first
    :param limit: how often it is tried again
    """
    ack = _ack_of(answer) if isinstance(answer, BaseException) else decision_of(answer)
    if ack.kind is AckKind.ACCEPT:
        return Done()
    if ack.kind is AckKind.IN_PROGRESS:
        return Again(ack.delay, "somebody else is at it", counts=False)
    if ack.kind in _FOR_GOOD:
        return Dead(ack.reason)
    reason = described(ack.error)
    if attempt > limit:
        return Dead(f"attempts exhausted after {attempt}: {reason}")
    return Again(delay, reason)


def killed_readers(attempt: int, limit: int) -> Dead | None:
    """Whether a message has ended its readers so often that it is not given to another."""
    if attempt <= limit + 1:
        return None
    return Dead(f"its reader ended {attempt - 1} times while it was handled")


def reason_of(failure: Exception) -> str:
    """Why a message that could not be read is given up."""
    return _ack_of(failure).reason or described(failure)


def given_up(record: LogRecord, reason: str) -> None:
    """Tells that a message becomes a dead letter."""
    log.warning("acemq: %s@%d is a dead letter: %s", record.stream, record.offset, reason)


def dead_letter(of: str, group: str, record: LogRecord, reason: str, attempt: int) -> OutboxRecord:
    """The same message for the dead-letter queue of a log, with its reason."""
    arrival = record.arrival
    put = {
        headers.ERROR: reason,
        headers.ATTEMPT: attempt,
        headers.ID: record.id,
        "acemq-log-group": group,
        "acemq-log-offset": record.offset,
    }
    drop = ("x-stream-offset", "x-stream-filter-value")
    properties = arrival.properties
    return OutboxRecord(
        fresh_id(),  # groups may give up the same message: each has its record
        "",
        dead_letter_queue(of),
        arrival.body,
        properties.content_type or "",
        properties.headers.edited(drop, put).raw,
    )


def _ack_of(failure: BaseException) -> Ack:
    if isinstance(failure, DecodeError):
        return Ack(AckKind.UNDECODABLE, failure)
    if isinstance(failure, FatalError):
        return Ack(AckKind.FATAL, failure)
    return Ack(AckKind.RETRY, failure)
