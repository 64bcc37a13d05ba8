"""Where counts and durations go, under the names every AceMQ library uses.

An observer is called on the path of every message, so it must be quick and must
not raise; one that does is logged once and left out from then on.
"""

from __future__ import annotations

import logging
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
