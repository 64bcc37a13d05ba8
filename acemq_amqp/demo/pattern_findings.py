"""What the play of the patterns must come to, and what it came to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from acemq_amqp.demo.findings import Expectation, differing
from acemq_amqp.demo.pattern_scenario import (
    DOCUMENTS,
    FIRST_SIZE,
    JOBS,
    ORDERS,
    PAYMENTS,
    SIZE,
    TWICE,
    PatternStage,
    document,
)

_COMMITTED: Final = ORDERS - ORDERS // 5

#: What is waited for before it is counted.
SETTLED_PAYMENTS: Final = PAYMENTS + TWICE
TOLD: Final = _COMMITTED

PATTERNS: Final = (
    Expectation("documents put aside", DOCUMENTS // 2, "claim check: long ones are files"),
    Expectation("documents read", DOCUMENTS, "whole, wherever they were"),
    Expectation("payments made", PAYMENTS, f"idempotency: {SETTLED_PAYMENTS} messages came"),
    Expectation("known already", TWICE, "accepted, and not made again"),
    Expectation("orders told", TOLD, f"outbox: {ORDERS} transactions, every fifth undone"),
    Expectation("told and not there", 0, "an order and its message are one commit"),
    Expectation("told out of order", 0, "each customer's orders come in turn"),
    Expectation("jobs handled", JOBS, "consumer group: each by one of them"),
    Expectation("consumers at work", SIZE, f"begun with {FIRST_SIZE}, then scaled"),
)


@dataclass(frozen=True, slots=True)
class PatternFindings:
    """What one flavour's play came to. The counts are in the order of ``PATTERNS``."""

    flavour: str
    counts: tuple[int, ...]
    seconds: float


def found_patterns(
    flavour: str, stage: PatternStage, *, at_work: int, seconds: float
) -> PatternFindings:
    """Counts a play."""
    read = stage.handled(stage.documents)
    made = len(stage.handled(stage.payments))
    told = stage.handled(stage.orders)
    counts = (
        sum(1 for _ in stage.claims.listing()),
        sum(each == document(each["document"]) for each in read),
        made,
        stage.settled_payments - made,
        len(told),
        len({each["order"] for each in told} ^ set(stage.committed())),
        out_of_order(told),
        len(stage.handled(stage.jobs)),
        at_work,
    )
    return PatternFindings(flavour, counts, seconds)


def out_of_order(told: Iterable[dict[str, Any]]) -> int:
    """Orders that came after a later one of the same customer."""
    last: defaultdict[str, int] = defaultdict(int)
    late = 0
    for each in told:
        customer, number = each["customer"], each["order"]
        late += number < last[customer]
        last[customer] = max(last[customer], number)
    return late


def at_work(handled: Sequence[int]) -> int:
    """Consumers that handled anything."""
    return sum(each > 0 for each in handled)


def wrong_pattern_counts(findings: PatternFindings) -> tuple[str, ...]:
    """A sentence for each count that is not as expected; empty where all is well."""
    return differing(findings.flavour, PATTERNS, findings.counts)
