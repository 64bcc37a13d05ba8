"""Worker threads for tasks: plain functions that may block run here, and the loop goes on.

Threads are made on demand, up to a bound, and end when nothing was to do for a while; further
calls wait for one to come free. They are never those of asyncio's default executor: what stalls in
there holds up every name look-up, and with it every reconnect. Nor are they an executor's at all,
since the interpreter waits for those when it ends: a handler that never returns would keep alive
a process that was asked to stop.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final

from acemq_amqp.errors import HandlerError
from acemq_amqp.flavours.place import ProcessPlace

#: Threads with nothing to do are kept so long, in seconds.
_IDLE: Final = 1.0


def broke_off(function: Callable[..., Any], how: BaseException) -> HandlerError:
    """An exit that is no ``Exception`` (``SystemExit``, a cancellation), as one."""
    name = getattr(function, "__qualname__", repr(function))
    return HandlerError(f"acemq: {name} ended with {type(how).__name__}: {how}")


class WorkerThreads:
    """So many threads at most, under a name. Tasks of several loops may share them.

    A process that was forked has threads of its own.

    :param most: threads at most
    :param name: what they are called, with a number
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._begin()

    def _begin(self) -> None:
        self._place = ProcessPlace()
        self._lock = threading.Lock()
        self._crew: _Crew | None = None

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """What the function gives, called in a thread with the caller's context variables.

        Where the caller is cancelled the function goes on, and nobody has its result.

        :raises HandlerError: it ended with something that is no ``Exception``
        """
        if not self._place.same_process():  # a fork copies no thread, and locks as they are
            self._begin()
        context = contextvars.copy_context()
        call = functools.partial(context.run, _guarded, function, args)
        with self._lock:
            if self._crew is None:
                self._crew = _Crew(self._most, self._name)
            result = self._crew.submit(call)
        return await asyncio.wrap_future(result)

    def stop(self) -> None:
        """Lets idle threads end; one that is still in a function ends after it."""
        with self._lock:
            crew, self._crew = self._crew, None
        if crew is not None:
            crew.dismiss()


class _Crew:
    """Daemon threads and the calls that wait for one."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._threads = 0
        #: calls that wait or run
        self._pending = 0

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        result: Future[Any] = Future()
        with self._lock:
            self._calls.put((result, call))
            self._pending += 1
            if self._threads < min(self._pending, self._most):
                self._threads += 1
                name = f"{self._name}_{next(self._numbers)}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
        return result

    def dismiss(self) -> None:
        """Cancels the calls that wait; every thread ends after the one it is in."""
        cancelled = []
        with self._lock:
            while not self._calls.empty():
                if (waiting := self._calls.get()) is not None:
                    cancelled.append(waiting[0])
            for _ in range(self._threads):
                self._calls.put(None)
        for result in cancelled:
            result.cancel()

    def _work(self) -> None:
        while (taken := self._next()) is not None:
            result, call = taken
            if result.set_running_or_notify_cancel():
                _carry_out(result, call)
            del result, call, taken  # or what they hold lives as long as this thread idles
            with self._lock:
                self._pending -= 1

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        """The next call; None where the thread is to end."""
        try:
            return self._calls.get(timeout=_IDLE)
        except Empty:
            with self._lock:  # so that nobody hands a call to a thread that ends
                if self._calls.empty():
                    self._threads -= 1
                    return None
            return self._next()


def _carry_out(result: Future[Any], call: Callable[[], Any]) -> None:
    try:
        value = call()
    except BaseException as failure:
        result.set_exception(failure)
    else:
        result.set_result(value)


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
