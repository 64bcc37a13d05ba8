"""Claims on messages in memory: for tests, and for one process that may forget."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from acemq_amqp.durations import Duration, seconds
from acemq_amqp.patterns.claim import Claim

_PURGE_EVERY: Final = 1000


@dataclass(slots=True)
class _Entry:
    holder: str
    done: bool
    until: float
    result: bytes | None = None


class InMemoryIdempotencyStore:
    """Remembers which messages were handled, as long as this process lives.

    Of any number of threads and tasks that claim one key at once, one is told CLAIMED.

    :param claim_timeout: how long a claim holds unless it is renewed
    :param retention: how long a handled message is remembered
    :param max_result: bytes of a result that is kept with its message; a larger one is not kept
    :param clock: seconds that never step back
    """

    def __init__(
        self,
        *,
        claim_timeout: Duration = 300.0,
        retention: Duration = 86400.0,
        max_result: int = 65536,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lease = seconds(claim_timeout, "claim_timeout")
        self._retention = seconds(retention, "retention")
        self._max_result = max_result
        self._clock = clock
        #: results that were larger than ``max_result``
        self.results_not_kept = 0
        self._guard = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._claims = 0

    def __repr__(self) -> str:
        return f"InMemoryIdempotencyStore({len(self._entries)} keys)"

    @property
    def claim_timeout(self) -> float:
        """Seconds that a claim holds unless it is renewed."""
        return self._lease

    async def claim(self, key: str, holder: str = "") -> Claim:
        """Claims a message, in one atomic step."""
        with self._guard:
            self._purge_now_and_then()
            entry = self._live(key)
            if entry is not None and not (holder and not entry.done and entry.holder == holder):
                return Claim.DUPLICATE if entry.done else Claim.IN_PROGRESS
            self._entries[key] = _Entry(holder, False, self._clock() + self._lease)
            return Claim.CLAIMED

    async def confirm(self, key: str, holder: str = "", result: bytes | None = None) -> bool:
        """Remembers a message as handled; False where the claim is another's by now."""
        with self._guard:
            entry = self._entries.get(key)
            if entry is None or entry.holder != holder:
                return False
            if result is not None and len(result) > self._max_result:
                self.results_not_kept += 1
                result = None
            self._entries[key] = _Entry(holder, True, self._clock() + self._retention, result)
            return True

    async def renew(self, key: str, holder: str = "") -> bool:
        """Begins the lease of a claim anew; False where it is another's by now."""
        with self._guard:
            entry = self._entries.get(key)
            if entry is None or entry.done or entry.holder != holder:
                return False
            entry.until = self._clock() + self._lease
            return True

    async def forget(self, key: str, holder: str = "") -> None:
        """Gives a claim up; without a holder, removes the key, whatever became of it."""
        with self._guard:
            entry = self._entries.get(key)
            if entry is not None and (not holder or (entry.holder == holder and not entry.done)):
                del self._entries[key]

    async def result(self, key: str) -> bytes | None:
        """What was kept with a handled message."""
        with self._guard:
            entry = self._live(key)
            return entry.result if entry is not None and entry.done else None

    async def first_time(self, key: str) -> bool:
        """Records a key as handled, and says whether it had not been before."""
        with self._guard:
            self._purge_now_and_then()
            if self._live(key) is not None:
                return False
            self._entries[key] = _Entry("", True, self._clock() + self._retention)
            return True

    async def purge(self) -> int:
        """Removes keys that need not be remembered any more; returns how many."""
        with self._guard:
            return self._purge()

    def _live(self, key: str) -> _Entry | None:
        entry = self._entries.get(key)
        return entry if entry is not None and entry.until > self._clock() else None

    def _purge_now_and_then(self) -> None:
        self._claims += 1
        if self._claims % _PURGE_EVERY == 0:
            self._purge()

    def _purge(self) -> int:
        now = self._clock()
        gone = [
            key
            for key, entry in self._entries.items()
            if entry.until + (0 if entry.done else self._retention) <= now
        ]
        for key in gone:
            del self._entries[key]
        return len(gone)
