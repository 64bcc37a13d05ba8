"""Numbers kept in memory: an observer for tests, health pages and small programs."""

from __future__ import annotations

import threading
from collections import defaultdict

from acemq_amqp.core.observer import Labels

Key = tuple[str, tuple[tuple[str, str], ...]]


def _key(name: str, labels: Labels) -> Key:
    return name, tuple(sorted(labels.items()))


class Metrics:
    """An observer that keeps numbers in memory, for tests and small programs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: defaultdict[Key, int] = defaultdict(int)
        self.durations: defaultdict[Key, list[float]] = defaultdict(lambda: [0, 0.0])
        self.gauges: dict[Key, float] = {}

    def count(self, name: str, labels: Labels, amount: int = 1) -> None:
        with self._lock:
            self.counts[_key(name, labels)] += amount

    def duration(self, name: str, labels: Labels, seconds: float) -> None:
        with self._lock:
            entry = self.durations[_key(name, labels)]
            entry[0] += 1
            entry[1] += seconds

    def gauge(self, name: str, labels: Labels, value: float) -> None:
        with self._lock:
            self.gauges[_key(name, labels)] = value

    def total(self, name: str, **labels: str) -> int:
        """The sum of a count over every label set that has these labels (``_`` for ``.``)."""
        wanted = {(label.replace("_", "."), value) for label, value in labels.items()}
        with self._lock:
            counts = list(self.counts.items())
        return sum(
            amount for (counted, have), amount in counts if counted == name and wanted <= set(have)
        )
