"""The ledger: what was published under which id, what the publisher was told, who handled it.

Lost is what the publisher was told is safe and nobody ever got. Doubled is an id that was handled
twice, which at-least-once delivery allows after a fault and never without one.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Counts:
    """One line of the table."""

    scenario: str
    flavour: str
    version: str
    published: int
    confirmed: int
    refused: int
    unknown: int
    handled: int
    dead: int
    parked: int
    lost: int
    doubled: int


COLUMNS = tuple(field.name for field in fields(Counts))


class Ledger:
    """Written by publishers and handlers on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.published: set[int] = set()
        self.confirmed: set[int] = set()
        self.refused: dict[int, str] = {}
        self.unknown: dict[int, str] = {}
        self.handled: Counter[int] = Counter()
        self.dead_lettered: set[int] = set()
        self.parked: set[int] = set()

    # ------------------------------------------------------------ told by publishers

    def next_id(self) -> int:
        """A fresh id, published from now on."""
        with self._lock:
            number = len(self.published)
            self.published.add(number)
            return number

    def confirm(self, number: int) -> None:
        with self._lock:
            self.confirmed.add(number)

    def refuse(self, number: int, why: str) -> None:
        with self._lock:
            self.refused[number] = why

    def doubt(self, number: int, why: str) -> None:
        with self._lock:
            self.unknown[number] = why

    # ------------------------------------------------------------ told by handlers

    def handle(self, number: int) -> int:
        """Notes that a handler is done with an id, and tells how often that was so."""
        with self._lock:
            self.handled[number] += 1
            return self.handled[number]

    # ------------------------------------------------------------ what it adds up to

    @property
    def outstanding(self) -> set[int]:
        """Confirmed, and nowhere yet."""
        with self._lock:
            return self.confirmed - self.handled.keys() - self.dead_lettered - self.parked

    @property
    def waiting(self) -> int:
        """How many were confirmed and not handled, roughly: without looking at each."""
        return len(self.confirmed) - len(self.handled)

    @property
    def doubled(self) -> set[int]:
        """Handled more than once."""
        with self._lock:
            return {number for number, times in self.handled.items() if times > 1}

    @property
    def ghosts(self) -> set[int]:
        """Handled, although the publisher was told that nothing was stored."""
        with self._lock:
            return self.handled.keys() & self.refused.keys()

    @property
    def untold(self) -> set[int]:
        """Published, and the publisher was told nothing."""
        with self._lock:
            told = self.confirmed | self.refused.keys() | self.unknown.keys()
            return self.published - told

    def counts(self, scenario: str, flavour: str, version: str) -> Counts:
        """The whole, as a line of the table."""
        return Counts(
            scenario,
            flavour,
            version,
            published=len(self.published),
            confirmed=len(self.confirmed),
            refused=len(self.refused),
            unknown=len(self.unknown),
            handled=len(self.handled),
            dead=len(self.dead_lettered),
            parked=len(self.parked),
            lost=len(self.outstanding),
            doubled=len(self.doubled),
        )

    def check(self, *, faulty: bool) -> None:
        """What every scenario has to end with.

        :param faulty: whether something happened after which a message may be handled twice
        """
        assert self.published, "nothing was published: the scenario shows nothing"
        assert not self.untold, f"published and never told: {sorted(self.untold)[:20]}"
        assert not self.outstanding, f"lost: {sorted(self.outstanding)[:20]}"
        assert not self.ghosts, f"refused and handled all the same: {sorted(self.ghosts)[:20]}"
        if not faulty:
            assert not self.doubled, f"handled twice without a fault: {sorted(self.doubled)[:20]}"


def table(lines: list[Counts]) -> list[str]:
    """The ledgers of a run for a person to read."""
    rows = [COLUMNS, *(tuple(str(getattr(line, name)) for name in COLUMNS) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return [
        "  ".join(
            cell.ljust(width) if column < 3 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
