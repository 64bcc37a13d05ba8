"""How a user's function is called from a task: on the loop, or in a worker thread.

A coroutine function runs on the loop, a plain one in a worker thread with the
caller's context variables, unless it asked to stay inline. Whatever a function
does to end (``SystemExit`` in a thread, a cancellation of its own making), its
caller sees an ``Exception``; only the caller's own cancellation passes through.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from acemq_amqp.core.ports import Call
from acemq_amqp.errors import ConfigurationError, HandlerError

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


def broke_off(function: Callable[..., Any], how: BaseException) -> HandlerError:
    """An exit that is no ``Exception`` (``SystemExit``, a cancellation), as one."""
    name = getattr(function, "__qualname__", repr(function))
    return HandlerError(f"acemq: {name} ended with {type(how).__name__}: {how}")


class TaskCalls:
    """Binds functions for callers that are tasks."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    def bind(self, function: Callable[..., Any], *, inline: bool) -> Call:
        function = checked_callable(function)
        if is_coroutine_function(function):
            return self._awaited(function)
        return self._inline(function) if inline else self._threaded(function)

    def stop(self) -> None:
        """Lets idle worker threads end; one that is still in a function ends after it."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None

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
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_WORKERS, thread_name_prefix="acemq-handler")
            context = contextvars.copy_context()
            loop = asyncio.get_running_loop()
            run = functools.partial(context.run, _guarded, function, args)
            result = await loop.run_in_executor(self._threads, run)
            return await result if inspect.isawaitable(result) else result

        return self._awaited(once)


def _guarded(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Calls in a worker thread; what no future can carry becomes a ``HandlerError`` there."""
    try:
        return function(*args)
    except StopIteration as stop:
        raise broke_off(function, stop) from stop
    except Exception:
        raise
    except BaseException as exit_:
        raise broke_off(function, exit_) from exit_
