"""Which payloads of a claim-check store can go: the old ones that nothing names.

Only names that are keys of a claim check (UUIDs, in every AceMQ library) are ever looked at, so
that a wrong folder or bucket loses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from acemq_amqp.cli.named_keys import Named
from acemq_amqp.cli.places import Payloads
from acemq_stores import FilesystemClaimCheckStore

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a sweep came to.

    :ivar payloads: in the store
    :ivar old: those older than the age
    :ivar unnamed: those of the old ones that are named nowhere
    :ivar orphans: half-written files and lone digests of that age
    :ivar removed: of both, if it was to delete
    """

    payloads: int = 0
    old: int = 0
    unnamed: int = 0
    orphans: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class Sweep:
    """Old payloads, and of them what can go."""

    counts: Counts
    old: frozenset[str]
    orphans: tuple[Path, ...] = ()
    unnamed: frozenset[str] = field(default=frozenset())

    def without(self, named: Iterable[Named]) -> Sweep:
        """What is left when all that are named are kept."""
        unnamed = self.old.difference(*(each.keys for each in named))
        return replace(self, unnamed=unnamed, counts=replace(self.counts, unnamed=len(unnamed)))

    def named_in(self, place: Named) -> int:
        """How many of the old ones a place names."""
        return len(self.old & place.keys)


def looked_over(payloads: Payloads, before: float) -> Sweep:
    """The payloads that were put before a moment (seconds since the epoch).

    :raises StoreError: the store cannot be read
    """
    total, old = 0, set()
    for key, put_at in payloads.listing():
        if _UUID.fullmatch(key):
            total += 1
            if put_at < before:
                old.add(key)
    orphans = _orphans(payloads, before)
    return Sweep(Counts(total, len(old), orphans=len(orphans)), frozenset(old), orphans)


def _orphans(payloads: Payloads, before: float) -> tuple[Path, ...]:
    """Files that crashes left; a store of another kind leaves none."""
    if not isinstance(payloads, FilesystemClaimCheckStore):
        return ()
    return tuple(path for path, left_at in payloads.orphans() if left_at < before)


def removed(payloads: Payloads, sweep: Sweep) -> Sweep:
    """Removes what can go.

    :raises StoreError: one could not be removed; those before it are gone
    """
    for key in sorted(sweep.unnamed):
        payloads.delete(key)
    for path in sweep.orphans:
        path.unlink(missing_ok=True)
    count = len(sweep.unnamed) + len(sweep.orphans)
    return replace(sweep, counts=replace(sweep.counts, removed=count))
