"""When reading ends by itself: after so many messages in all, or after a while without any.

Both are shared by the readers of several streams, in tasks or threads of their own.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any


class Quota:
    """Messages that may still be taken. What is claimed is handled, or given back.

    :param limit: in all; None has no end
    :param lock: guards it between threads
    """

    def __init__(self, limit: int | None, lock: AbstractContextManager[Any]) -> None:
        self._limit = limit
        self._lock = lock
        self._claimed = 0
        self._finished = 0

    def claim(self, most: int) -> int:
        """Claims as many as there are, or ``most``."""
        if self._limit is None:
            return most
        with self._lock:
            most = min(most, self._limit - self._finished - self._claimed)
            self._claimed += most
            return most

    def give_back(self, count: int) -> None:
        """Gives back what was claimed and not handled."""
        if self._limit is not None:
            with self._lock:
                self._claimed -= count

    def finish(self, count: int) -> bool:
        """Notes what was claimed and handled; whether that was all."""
        if self._limit is None:
            return False
        with self._lock:
            self._claimed -= count
            self._finished += count
            return self._finished >= self._limit


class Idleness:
    """Since when each stream has been read to its end, with nothing coming.

    :param streams: how many there are
    :param idle: seconds after which that is enough; None is never
    """

    def __init__(self, streams: int, idle: float | None) -> None:
        self._streams = streams
        self._idle = idle
        self._since: dict[str, float] = {}

    @property
    def matters(self) -> bool:
        """Whether anybody asks."""
        return self._idle is not None

    def busy(self, stream: str) -> None:
        """Something came, or it is not known whether anything is there."""
        self._since.pop(stream, None)

    def quiet(self, stream: str, now: float) -> bool:
        """All is read there, and nothing came; whether reading ends."""
        if self._idle is None:
            return False
        self._since.setdefault(stream, now)
        since = list(self._since.values())
        return len(since) >= self._streams and now - max(since) >= self._idle
