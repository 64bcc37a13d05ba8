"""Calls out of the broker: in the order in which it decided them, and never under its lock.

The broker notes a callback while it holds its lock and makes the call afterwards.
Two threads that did so on their own could overtake each other, so one of them at a
time makes all the calls that are noted, and the other goes on.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

log = logging.getLogger("acemq_amqp")


class Calls:
    """Callbacks that wait to be called."""

    __slots__ = ("_calling", "_waiting", "note")

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[Any], object], Any]] = deque()
        self._calling = threading.Lock()
        #: ``note((callback, argument))``, under the broker's lock
        self.note = self._waiting.append

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def make(self) -> None:
        """Makes the calls that wait, unless a thread is at it: then that one makes these too."""
        while self._waiting and self._calling.acquire(blocking=False):
            try:
                self._make_all()
            finally:
                self._calling.release()

    def _make_all(self) -> None:
        waiting = self._waiting
        while waiting:
            callback, argument = waiting.popleft()
            try:
                callback(argument)
            except Exception:
                log.exception("acemq: a callback of the in-memory broker failed")
