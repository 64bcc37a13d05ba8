"""What runs until it is stopped: a reader's tasks, its end, and what ended it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal

from acemq_amqp.core.ports import Deadline, Task, Work
from acemq_amqp.errors import BrokerError, NotFound, StoreError
from acemq_amqp.eventlog.errors import LeaseLost, LogReplaced, RetentionPassed

log = logging.getLogger("acemq_amqp")

#: How often one that has nothing to do looks whether it is to stop; in seconds.
GLANCE = 0.2
#: Seconds between tries, the longer the more have failed.
PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
#: What trying again cannot help.
_FINAL = (LogReplaced, RetentionPassed, NotFound)


class Stopped(Exception):
    """Ends a reader in the middle of something that another takes up."""


class Running:
    """Tasks that end together.

    :ivar failure: what ended it before its time
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._stopping = work.event()
        self._tasks: list[Task] = []
        self.failure: BaseException | None = None
        self._troubles: dict[str, str] = {}

    def _spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(self._work.spawn(coroutine, name))

    def stop(self) -> None:
        """Asks it to end after what it is at. Any thread."""
        self._stopping.set()

    @property
    def state(self) -> Literal["running", "retrying", "stopped", "failed"]:
        """Whether it runs, and if it does not, why."""
        if self.failure is not None:
            return "failed"
        if self.over:
            return "stopped"
        return "retrying" if self.trouble else "running"

    @property
    def trouble(self) -> str:
        """What ended it, or what is being tried again; ``""`` where all is well."""
        if self.failure is not None:
            return str(self.failure)
        return next(iter(list(self._troubles.values())), "")

    def ill(self, what: str, failure: Exception) -> None:
        """Notes a trouble that is being tried again."""
        self._troubles[what] = str(failure) or type(failure).__name__

    def well(self, what: str) -> None:
        """Notes that what was in trouble goes on."""
        self._troubles.pop(what, None)

    @property
    def over(self) -> bool:
        """Whether it is to end."""
        return self._stopping.is_set()

    async def left(self, deadline: Deadline = None) -> bool:
        """Waits for its end, however it came; False at the deadline."""
        for task in self._tasks:
            if not await task.join(deadline):
                return False
        return True

    async def ended(self) -> None:
        """Waits for its end.

        :raises BaseException: what ended it before its time
        """
        await self.left()
        if self.failure is not None:
            raise self.failure

    async def _pause(self, seconds: float) -> bool:
        """Waits; True where it is to end."""
        return await self._stopping.wait(self._work.clock.monotonic() + seconds)

    def _fail(self, failure: BaseException) -> None:
        self.failure = self.failure or failure
        self._stopping.set()

    async def _lasting(self, what: str, attempt: Callable[[], Awaitable[float]]) -> None:
        """Does something again and again until stopped, whatever becomes of broker and store.

        :param what: under which name trouble with it is told; see :meth:`well`
        :param attempt: returns the seconds until it is to be called again
        """
        failures = 0
        while not self.over:
            try:
                pause = await attempt()
                failures = 0
            except Stopped:
                return
            except LeaseLost as failure:
                log.warning("%s", failure)
                pause = GLANCE
            except (BrokerError, StoreError) as failure:
                if isinstance(failure, _FINAL):
                    return self._fail(failure)
                self.ill(what, failure)
                log.warning("acemq: reading %s goes on after a pause: %s", what, failure)
                pause = PAUSES[min(failures, len(PAUSES) - 1)]
                failures += 1
            except Exception as failure:
                return self._fail(failure)
            if pause:
                await self._pause(pause)
