"""What a query has done since it was started, counted by all its streams."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import fields
from typing import Any

from acemq_amqp.eventlog.windows.values import Counts


class Tally:
    """Counts what was committed.

    :param guard: keeps others out while counting
    """

    def __init__(self, guard: AbstractContextManager[Any]) -> None:
        self._guard = guard
        self.events = 0
        self.results = 0
        self.dead_letters = 0
        self.late = Counts()

    def add(self, *, events: int, results: int, dead_letters: int, late: Counts) -> None:
        """Adds a commit's."""
        with self._guard:
            self.events += events
            self.results += results
            self.dead_letters += dead_letters
            self.late = _sum(self.late, late)


def _sum(one: Counts, other: Counts) -> Counts:
    named = (field.name for field in fields(Counts))
    return Counts(**{name: getattr(one, name) + getattr(other, name) for name in named})
