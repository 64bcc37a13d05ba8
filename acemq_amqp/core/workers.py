"""The workers of a consumer: so many at once, for as long as it runs.

Each is a task or thread of its own. One that is cancelled by anybody but its consumer, say by the
handler that it runs, is replaced: else its place would be gone, without a word.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from acemq_amqp.core.ports import Task, Work

log = logging.getLogger("acemq_amqp")

#: Until another takes its place; not at once, as the whole loop may be about to end; seconds.
_PAUSE = 0.5


class Workers:
    """Runs a loop several times side by side.

    :param serve: the loop; it ends where it takes None from the inbox
    :param name: the start of each one's name
    """

    def __init__(
        self, work: Work, serve: Callable[[], Coroutine[Any, Any, None]], name: str, count: int
    ) -> None:
        self._work = work
        self._serve = serve
        self._name = name
        self._ending = False
        self._running: dict[int, Task] = {}
        for number in range(1, count + 1):
            self._begin(number)

    def _begin(self, number: int) -> None:
        self._running[number] = self._work.spawn(self._run(number), f"{self._name}-{number}")

    async def _run(self, number: int) -> None:
        try:
            await self._serve()
        except BaseException:
            if not self._ending:
                self._work.later(_PAUSE, functools.partial(self._replace, number))
            raise

    def _replace(self, number: int) -> None:
        if not self._ending:
            log.warning(
                "acemq: the task of a handler, %s-%s, was cancelled, and not by its consumer: what "
                "it handled is put back, and another takes its place. Cancel what a handler "
                "began, and not the task that runs it",
                self._name,
                number,
            )
            self._begin(number)

    async def end(self, inbox: Any, limit: float) -> bool:
        """Has all of them end, and cancels those that did not in time; False for one of those."""
        self._ending = True
        workers = list(self._running.values())
        for _ in workers:
            inbox.put(None)
        ended = [await worker.join(limit) for worker in workers]
        for worker, over in zip(workers, ended, strict=True):
            if not over:
                worker.cancel()
        return all(ended)
