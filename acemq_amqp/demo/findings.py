"""What a play must come to, what it came to, and the difference.

The counts come from three places that know nothing of each other: the handler, the
counters of the connection, and the messages that are on the broker afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from acemq_amqp import headers
from acemq_amqp.demo.scenario import (
    ALWAYS_FAILS,
    BY_EXCHANGE,
    FAILS_ONCE,
    FAILS_TWICE,
    NO_ADDRESS,
    STRAIGHT,
    Desk,
)

_ORDERS: Final = len(STRAIGHT) + len(BY_EXCHANGE)
_ONCE: Final = len(FAILS_ONCE) + len(FAILS_TWICE) + len(ALWAYS_FAILS)
_TWICE: Final = len(FAILS_TWICE) + len(ALWAYS_FAILS)

#: What a play waits for: so many handled, so many dead or parked.
HANDLED: Final = _ORDERS - len(ALWAYS_FAILS) - len(NO_ADDRESS)
SET_ASIDE: Final = len(ALWAYS_FAILS) + len(NO_ADDRESS) + 1

#: How the reason of a message that was set aside must begin.
EXHAUSTED: Final = "exhausted 3 attempts: BankSilent: "
REJECTED: Final = "the handler rejected it: order "
UNREADABLE: Final = "could not be decoded: DecodeError: "


@dataclass(frozen=True, slots=True)
class Expectation:
    """One row of the report."""

    label: str
    count: int
    meaning: str


EXPECTED: Final = (
    Expectation("orders confirmed", _ORDERS, "sent, and the broker said that it has them"),
    Expectation("sent to nobody", 1, "no queue wants its key, and the sender is told"),
    Expectation("handler calls", _ORDERS + _ONCE + _TWICE, "first tries and further ones"),
    Expectation("waits held here", _ONCE, "failed: 0.2 s in the consumer, others go on"),
    Expectation("waits in the broker", _TWICE, "failed again: 1 s in a queue made for it"),
    Expectation("orders handled", HANDLED, "accepted, at whichever try"),
    Expectation("handled twice", 0, "could be after a crash; there was none"),
    Expectation("dead: out of tries", len(ALWAYS_FAILS), "failed three times"),
    Expectation("dead: rejected", len(NO_ADDRESS), "the handler does not want it"),
    Expectation("parked", 1, "not JSON: kept whole for a person"),
    Expectation("left in the queue", 0, "none got lost, none is left over"),
)


class Pulled(Protocol):
    """A message taken by hand, of either flavour."""

    @property
    def body(self) -> bytes: ...
    @property
    def headers(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class SetAside:
    """A dead letter or a parked message, as it tells itself."""

    body: bytes
    attempt: int
    reason: str

    @classmethod
    def read(cls, message: Pulled) -> SetAside:
        told = message.headers
        return cls(message.body, told.get(headers.ATTEMPT, 0), str(told.get(headers.ERROR, "")))

    @property
    def number(self) -> int:
        """The order's number; 0 for what is none."""
        try:
            return int(json.loads(self.body)["order"])
        except (LookupError, TypeError, ValueError):
            return 0

    @property
    def name(self) -> str:
        """``order 42``, or the size of what is none."""
        return f"order {self.number}" if self.number else f"{len(self.body)} bytes"


@dataclass(frozen=True, slots=True)
class Findings:
    """What one flavour's play came to. The counts are in the order of ``EXPECTED``."""

    flavour: str
    counts: tuple[int, ...]
    dead: tuple[SetAside, ...]
    parked: tuple[SetAside, ...]
    seconds: float


def found(
    flavour: str,
    desk: Desk,
    *,
    dead: Iterable[SetAside],
    parked: Iterable[SetAside],
    left: int,
    seconds: float,
) -> Findings:
    """Counts a play."""
    dead = tuple(sorted(dead, key=lambda each: each.number))
    parked = tuple(parked)
    retried = "acemq.messages.retried.total"
    counts = (
        desk.confirmed,
        desk.unrouted,
        len(desk.calls),
        desk.metrics.total(retried, where="consumer"),
        desk.metrics.total(retried, where="broker"),
        len(set(desk.handled)),
        len(desk.handled) - len(set(desk.handled)),
        _with_reason(dead, EXHAUSTED),
        _with_reason(dead, REJECTED),
        _with_reason(parked, UNREADABLE),
        left,
    )
    return Findings(flavour, counts, dead, parked, seconds)


def wrong_counts(findings: Findings) -> tuple[str, ...]:
    """A sentence for each count that is not as expected; empty where all is well."""
    return differing(findings.flavour, EXPECTED, findings.counts)


def differing(
    flavour: str, expected: Iterable[Expectation], counts: Iterable[int]
) -> tuple[str, ...]:
    """A sentence for each count that is another than expected."""
    return tuple(
        f"{flavour}: {wanted.label}: {count}, and {wanted.count} were expected"
        for wanted, count in zip(expected, counts, strict=True)
        if count != wanted.count
    )


def _with_reason(messages: Iterable[SetAside], start: str) -> int:
    return sum(message.reason.startswith(start) for message in messages)
