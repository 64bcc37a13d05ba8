"""What every contender works on alike: the payload, its JSON, the window and the prefetch."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

#: messages that may be unconfirmed at once
WINDOW = 1000
#: deliveries that may be unacknowledged at once
PREFETCH = 200
CONTENT_TYPE = "application/json"
#: bytes of a body
SIZE = 256


def _payload() -> dict[str, Any]:
    order = {"order": 4711, "paid": True, "note": ""}
    return {**order, "note": "x" * (SIZE - len(encoded(order)))}


def decoded(body: bytes) -> Any:
    """A payload of a body, for the drivers, which leave that to their users."""
    return json.loads(body)


def encoded(payload: Any) -> bytes:
    """A body of a payload, for the drivers. It costs them less than ``json.dumps``."""
    return _encode(payload).encode()


_encode = json.JSONEncoder(separators=(",", ":")).encode
PAYLOAD = _payload()
BODY = encoded(PAYLOAD)


async def concurrently(send: Callable[[], Awaitable[object]], times: int) -> None:
    """Sends so many times, with a whole window of sends at work.

    Workers share one iterator: a semaphore with a task for each message would cost more than many a
    send does.
    """
    numbers = iter(range(times))

    async def worker() -> None:
        for _ in numbers:
            await send()

    await asyncio.gather(*(worker() for _ in range(min(WINDOW, times))))


class Lap:
    """Counts consumed messages; its time is from the last of the warm-up to the last of all.

    :param done: called when the last one was counted
    """

    def __init__(self, warmup: int, messages: int, done: Callable[[], object]) -> None:
        self._warm = warmup
        self._last = warmup + messages
        self._done = done
        self._count = 0
        self._started = 0.0
        self.seconds = 0.0

    def hit(self) -> None:
        """One more."""
        self._count += 1
        if self._count == self._warm:
            self._started = time.perf_counter()
        elif self._count == self._last:
            self.seconds = time.perf_counter() - self._started
            self._done()
