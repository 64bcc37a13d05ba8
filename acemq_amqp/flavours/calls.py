"""How a user's function is called from a task: on the loop, or in a worker thread.

A coroutine function runs on the loop, a plain one in a worker thread with the
caller's context variables, unless it asked to stay inline. Whatever a function
does to end (``SystemExit`` in a thread, a cancellation of its own making), its
caller sees an ``Exception``; only the caller's own cancellation passes through.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any

from acemq_amqp.core.ports import Call
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.flavours.workers import WorkerThreads, broke_off

#: More than any sensible sum of concurrencies; threads are made on demand only.
_WORKERS = 1024


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await, looking through partials and ``__call__``."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - the method itself is asked
    )


def checked_callable(function: Any) -> Callable[..., Any]:
    """The function itself.

    :raises ConfigurationError: it cannot be called
    """
    if not callable(function):
        raise ConfigurationError(
            f"acemq: a handler has to be callable, got {type(function).__name__}; "
            "pass the function itself, not the result of calling it"
        )
    result: Callable[..., Any] = function
    return result


class TaskCalls:
    """Binds functions for callers that are tasks."""

    def __init__(self) -> None:
        self._workers = WorkerThreads(_WORKERS, "acemq-handler")

    def bind(self, function: Callable[..., Any], *, inline: bool) -> Call:
        function = checked_callable(function)
        if is_coroutine_function(function):
            return self._awaited(function)
        return self._inline(function) if inline else self._threaded(function)

    def stop(self) -> None:
        """Lets idle worker threads end; one that is still in a function ends after it."""
        self._workers.stop()

    def _awaited(self, function: Callable[..., Any]) -> Call:
        async def call(*args: Any) -> Any:
            try:
                return await function(*args)
            except Exception:
                raise
            except asyncio.CancelledError as cancelled:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                raise broke_off(function, cancelled) from cancelled
            except BaseException as exit_:
                raise broke_off(function, exit_) from exit_

        return call

    def _inline(self, function: Callable[..., Any]) -> Call:
        async def once(*args: Any) -> Any:
            result = function(*args)
            return await result if inspect.isawaitable(result) else result

        return self._awaited(once)

    def _threaded(self, function: Callable[..., Any]) -> Call:
        async def once(*args: Any) -> Any:
            result = await self._workers.run(function, *args)
            return await result if inspect.isawaitable(result) else result

        return self._awaited(once)
