"""What becomes of a delivery: a decision from values to a value.

An accept needs none. Everything else moves the message: at once, or after a wait
that is held here. The settler carries the decision out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from acemq_amqp import headers
from acemq_amqp.ack import Ack, AckKind, described
from acemq_amqp.envelope import Envelope
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.naming import dead_letter_queue, parked_queue, retry_queue
from acemq_amqp.retry import GiveUp, RetryPolicy

Result = Literal["acked", "retried", "rejected", "dead_lettered", "parked", "in_progress"]


@dataclass(frozen=True, slots=True)
class Hop:
    """Publish to ``target`` with these headers changed, then acknowledge the original.

    :ivar rung: seconds a message waits in the target, where that is a retry rung
    """

    target: str
    result: Result
    put: Mapping[str, Any] = field(default_factory=dict)
    rung: float | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep the delivery unsettled for ``delay`` seconds, then hop.

    :ivar spill: the hop to take at once where too many are held already
    """

    delay: float
    then: Hop
    spill: Hop | None = None


Settlement = Hop | Hold

_SET_ASIDE: Mapping[AckKind, tuple[Callable[[str], str], Result]] = {
    AckKind.REJECT: (dead_letter_queue, "rejected"),
    AckKind.FATAL: (dead_letter_queue, "dead_lettered"),
    AckKind.PARK: (parked_queue, "parked"),
    AckKind.UNDECODABLE: (parked_queue, "parked"),
}


def settlement_of(
    ack: Ack,
    envelope: Envelope,
    *,
    queue: str,
    policy: RetryPolicy,
    now: datetime,
    dice: Callable[[], float] = random.random,
) -> Settlement:
    """Decides for an answer other than accept."""
    if ack.kind is AckKind.IN_PROGRESS:
        return Hold(ack.delay, Hop(queue, "in_progress"))
    if ack.kind is AckKind.RETRY:
        return _retried(ack, envelope, queue, policy, now - envelope.first_seen, dice)
    name, result = _SET_ASIDE[ack.kind]
    return Hop(name(queue), result, {headers.ERROR: ack.reason})


def _retried(
    ack: Ack,
    envelope: Envelope,
    queue: str,
    policy: RetryPolicy,
    age: timedelta,
    dice: Callable[[], float],
) -> Settlement:
    decision = policy.next_wait(envelope.attempt, age, dice)
    if isinstance(decision, GiveUp):
        error = f"{decision.reason}: {described(ack.error)}"
        return Hop(dead_letter_queue(queue), "dead_lettered", {headers.ERROR: error})
    put = {headers.ATTEMPT: envelope.attempt + 1}
    if decision.base <= 0:
        return Hop(queue, "retried", put)
    if decision.where == "broker":
        return _rung(queue, decision.base, put)
    try:
        spill = _rung(queue, decision.base, put)
    except ConfigurationError:  # a wait too long for a rung, or a name: it is held here
        spill = None
    return Hold(decision.delay, Hop(queue, "retried", put), spill)


def _rung(queue: str, base: float, put: Mapping[str, Any]) -> Hop:
    return Hop(retry_queue(queue, base), "retried", put, rung=base)
