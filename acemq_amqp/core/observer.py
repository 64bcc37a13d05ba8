"""Where counts and durations go, under the names every AceMQ library uses.

An observer is called on the path of every message, so it must be quick and must
not raise; one that does is logged once and left out from then on.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

log = logging.getLogger("acemq_amqp")

Labels = Mapping[str, str]


@runtime_checkable
class Observer(Protocol):
    """Sees counts, durations (seconds) and gauges."""

    def count(self, name: str, labels: Labels, amount: int = 1) -> None: ...

    def duration(self, name: str, labels: Labels, seconds: float) -> None: ...

    def gauge(self, name: str, labels: Labels, value: float) -> None: ...


Key = tuple[str, tuple[tuple[str, str], ...]]


def _key(name: str, labels: Labels) -> Key:
    return name, tuple(sorted(labels.items()))


class Metrics:
    """An observer that keeps numbers in memory, for tests and small programs."""

    def __init__(self) -> None:
        self.counts: defaultdict[Key, int] = defaultdict(int)
        self.durations: defaultdict[Key, list[float]] = defaultdict(lambda: [0, 0.0])
        self.gauges: dict[Key, float] = {}

    def count(self, name: str, labels: Labels, amount: int = 1) -> None:
        self.counts[_key(name, labels)] += amount

    def duration(self, name: str, labels: Labels, seconds: float) -> None:
        entry = self.durations[_key(name, labels)]
        entry[0] += 1
        entry[1] += seconds

    def gauge(self, name: str, labels: Labels, value: float) -> None:
        self.gauges[_key(name, labels)] = value

    def total(self, name: str, **labels: str) -> int:
        """The sum of a count over every label set that has these labels (``_`` for ``.``)."""
        wanted = {(label.replace("_", "."), value) for label, value in labels.items()}
        return sum(
            amount
            for (counted, have), amount in self.counts.items()
            if counted == name and wanted <= set(have)
        )


class Observing:
    """The core's way to an observer: does nothing without one, and outlives one that fails."""

    def __init__(self, observer: Observer | None) -> None:
        self._observer = observer

    @property
    def watched(self) -> bool:
        """Whether anybody looks: callers skip building labels where nobody does."""
        return self._observer is not None

    def count(self, name: str, labels: Labels, amount: int = 1) -> None:
        if self._observer is not None:
            try:
                self._observer.count(name, labels, amount)
            except Exception:
                self._drop()

    def duration(self, name: str, labels: Labels, seconds: float) -> None:
        if self._observer is not None:
            try:
                self._observer.duration(name, labels, seconds)
            except Exception:
                self._drop()

    def gauge(self, name: str, labels: Labels, value: float) -> None:
        if self._observer is not None:
            try:
                self._observer.gauge(name, labels, value)
            except Exception:
                self._drop()

    def _drop(self) -> None:
        log.exception("acemq: the observer raised and is left out from now on; messages go on")
        self._observer = None
