"""One call to the driver: with a deadline, and over when the connection is.

The driver cancels what waits when it dies, can leave a call waiting for ever, and
answers a cancelled call by closing its channel. So each call is a task of its own,
raced against the deadline and the end of the connection: a cancellation that was not
asked for is a lost connection, and the caller's own cancellation passes through.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from acemq_amqp.core.ports import Deadline
from acemq_amqp.errors import BrokerTimeout, ConnectionLost
from acemq_amqp.transports.aiopika import quiet

T = TypeVar("T")


def seconds_left(deadline: Deadline) -> float | None:
    """How long until a deadline, never negative; None for no limit."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


class Calls:
    """The calls of one connection, and the tasks that work for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._context = quiet.context()
        self._asked: set[asyncio.Future[Any]] = set()
        self._spawned: set[asyncio.Future[Any]] = set()
        self._over: asyncio.Future[None] = loop.create_future()
        self.lost: ConnectionLost | None = None

    async def ask(self, call: Awaitable[T], deadline: Deadline, asked: str) -> T:
        """Waits for an answer; what the driver raises comes through as it is.

        :param asked: what is asked, as in "declaring queue 'orders'"
        :raises BrokerTimeout: at the deadline
        :raises ConnectionLost: the connection ended first
        """
        task: asyncio.Future[T]
        if asyncio.iscoroutine(call):
            task = self._loop.create_task(call, context=self._context)
        else:
            task = asyncio.ensure_future(call)
        self._keep(task, self._asked)
        if self._over.done():
            task.cancel()
            raise self.loss(asked)
        try:
            await asyncio.wait(
                (task, self._over),
                timeout=seconds_left(deadline),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if task.done() and not task.cancelled():
                return task.result()
            if task.cancelled() or self._over.done():
                raise self.loss(asked)
        finally:
            if not self._over.done():  # else the driver ends it, or :meth:`abandon`
                task.cancel()
        raise BrokerTimeout(
            f"acemq: the broker did not answer {asked} in the time allowed; the connection is up, "
            "so the broker is busy, or holds this connection back in an alarm"
        )

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs a coroutine of the transport's own, and keeps it until it ends."""
        task = self._loop.create_task(work, context=self._context)
        self._keep(task, self._spawned)
        return task

    def end(self, lost: ConnectionLost | None) -> None:
        """Ends every call that waits.

        :param lost: why, unless we closed the connection ourselves
        """
        self.lost = lost
        if not self._over.done():
            self._over.set_result(None)

    def loss(self, asked: str) -> ConnectionLost:
        """A new error that says why there is no connection any more."""
        why = self.lost
        if why is not None:
            reason = str(why).removeprefix("acemq: ")
        elif self._over.done():
            reason = "the connection is closed"
        else:
            reason = "its channel was closed meanwhile; try again"
        code = 0 if why is None else why.code
        error = ConnectionLost(f"acemq: no answer to {asked}: {reason}", code=code)
        error.__cause__ = why
        return error

    def abandon(self) -> None:
        """Cancels what the driver left waiting when it closed."""
        for call in list(self._asked):
            call.cancel()

    async def finished(self, limit: float) -> None:
        """Waits until no task is left, for so many seconds. Call it when the connection is over."""
        if tasks := self._asked | self._spawned:
            await asyncio.wait(tasks, timeout=limit)

    def _keep(self, task: asyncio.Future[Any], among: set[asyncio.Future[Any]]) -> None:
        among.add(task)
        task.add_done_callback(among.discard)
        task.add_done_callback(_read)


def _read(task: asyncio.Future[Any]) -> None:
    """Reads an error that nobody waited for, so that nobody warns of it."""
    if not task.cancelled():
        task.exception()
