"""Worker threads for tasks: plain functions that may block run here, and the loop goes on.

Threads are made on demand, up to a bound, and end when nothing was to do for a while; further
calls wait for one to come free. They are never those of asyncio's default executor: what stalls in
there holds up every name look-up, and with it every reconnect.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from acemq_amqp.errors import HandlerError

#: Threads with nothing to do are kept so long, in seconds.
_IDLE: Final = 1.0


def broke_off(function: Callable[..., Any], how: BaseException) -> HandlerError:
    """An exit that is no ``Exception`` (``SystemExit``, a cancellation), as one."""
    name = getattr(function, "__qualname__", repr(function))
    return HandlerError(f"acemq: {name} ended with {type(how).__name__}: {how}")


class WorkerThreads:
    """So many threads at most, under a name. Tasks of several loops may share them.

    :param most: threads at most
    :param name: what they are called, with a number
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._lock = threading.RLock()  # calls cancelled by a stop end in it
        self._threads: ThreadPoolExecutor | None = None
        self._running = 0
        #: counts calls, so that a look at idle threads knows whether there was one since
        self._calls = 0

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """What the function gives, called in a thread with the caller's context variables.

        Where the caller is cancelled the function goes on, and nobody has its result.

        :raises HandlerError: it ended with something that is no ``Exception``
        """
        context = contextvars.copy_context()
        call = functools.partial(context.run, _guarded, function, args)
        with self._lock:  # so that idle threads end before a call is handed over, or not at all
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._most, thread_name_prefix=self._name)
            result = self._threads.submit(call)
            self._running += 1
            self._calls += 1
        result.add_done_callback(self._ended)
        try:
            return await asyncio.wrap_future(result)
        finally:
            if self._running == 0:
                asyncio.get_running_loop().call_later(_IDLE, self._stop_idle, self._calls)

    def stop(self) -> None:
        """Lets idle threads end; one that is still in a function ends after it."""
        with self._lock:
            self._let_go()

    def _ended(self, result: Future[Any]) -> None:
        """A call has ended in its thread, which may be long after its caller was cancelled."""
        with self._lock:
            self._running -= 1

    def _stop_idle(self, calls: int) -> None:
        with self._lock:
            if self._calls == calls and self._running == 0:
                self._let_go()

    def _let_go(self) -> None:
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
