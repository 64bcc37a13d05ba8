"""Worker threads for tasks: plain functions that may block run here, and the loop goes on.

Threads are made on demand, up to a bound; further calls wait for one to come free. They
are never those of asyncio's default executor: what stalls in there holds up every name
look-up, and with it every reconnect.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from acemq_amqp.errors import HandlerError


def broke_off(function: Callable[..., Any], how: BaseException) -> HandlerError:
    """An exit that is no ``Exception`` (``SystemExit``, a cancellation), as one."""
    name = getattr(function, "__qualname__", repr(function))
    return HandlerError(f"acemq: {name} ended with {type(how).__name__}: {how}")


class WorkerThreads:
    """So many threads at most, under a name.

    :param most: threads at most
    :param name: what they are called, with a number
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._threads: ThreadPoolExecutor | None = None

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """What the function gives, called in a thread with the caller's context variables.

        Where the caller is cancelled the function goes on, and nobody has its result.

        :raises HandlerError: it ended with something that is no ``Exception``
        """
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._most, thread_name_prefix=self._name)
        context = contextvars.copy_context()
        call = functools.partial(context.run, _guarded, function, args)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def stop(self) -> None:
        """Lets idle threads end; one that is still in a function ends after it."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


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
