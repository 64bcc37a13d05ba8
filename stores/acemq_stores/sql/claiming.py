"""Claims and confirmations in a session, many by one statement."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from acemq_amqp.patterns.claim import Claim
from acemq_stores.sql import statements as sql
from acemq_stores.sql.session import Session


@dataclass(frozen=True, slots=True)
class Claiming:
    """Somebody wants a message."""

    key: str
    holder: str


@dataclass(frozen=True, slots=True)
class Confirming:
    """Somebody has handled a message."""

    key: str
    holder: str
    result: bytes | None = None


def claimed_in(asked: Sequence[Claiming], lease: float, session: Session) -> list[Claim]:
    """What becomes of each claim. Of several on one key the first goes first."""
    found: dict[int, Claim] = {}
    while len(found) < len(asked):
        first: dict[str, int] = {}
        for number, each in enumerate(asked):
            if number not in found:
                first.setdefault(each.key, number)
        told = _claimed_at_once([asked[number] for number in first.values()], lease, session)
        found.update((first[key], claim) for key, claim in told.items())
    return [found[number] for number in range(len(asked))]


def _claimed_at_once(asked: Sequence[Claiming], lease: float, session: Session) -> dict[str, Claim]:
    """Claims of different keys. A key that was given up in between is left out, and free now."""
    rows = session.rows(sql.CLAIM, given=_given(asked), lease=lease)
    told = {row[0]: Claim.CLAIMED for row in rows}
    others = [each.key for each in asked if each.key not in told]
    if others:
        for key, done in session.rows(sql.CLAIM_STATES, given=json.dumps(others)):
            told[key] = Claim.DUPLICATE if done else Claim.IN_PROGRESS
    return told


def confirmed_in(asked: Sequence[Confirming], retention: float, session: Session) -> list[bool]:
    """Whether each holder still had its claim."""
    plain = [each for each in asked if each.result is None]
    rows = session.rows(sql.CONFIRM, given=_given(plain), retention=retention) if plain else []
    for each in sorted(asked, key=lambda each: each.key):
        if each.result is not None:
            rows += session.rows(
                sql.CONFIRM_WITH_RESULT,
                key=each.key,
                holder=each.holder,
                result=each.result,
                retention=retention,
            )
    confirmed = {tuple(row) for row in rows}
    return [(each.key, each.holder) in confirmed for each in asked]


def _given(asked: Iterable[Claiming | Confirming]) -> str:
    return json.dumps([{"key": each.key, "holder": each.holder} for each in asked])
