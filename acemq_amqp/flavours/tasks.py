"""The async flavour's work: tasks, timers and queues of one event loop.

Queues and events may be fed from any thread, since the broker in memory is shared
by both flavours and blocking handlers run in worker threads; they are awaited on
the loop alone.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Generic, TypeVar

from acemq_amqp.codec import Codec
from acemq_amqp.core.ports import Call, Clock, Deadline, Timer, WaitingCodec
from acemq_amqp.core.stopping import LEFT_OPEN
from acemq_amqp.flavours.calls import TaskCalls
from acemq_amqp.flavours.codecs import TaskCodecs
from acemq_amqp.flavours.lag import LoopWatch
from acemq_amqp.flavours.place import LoopPlace

T = TypeVar("T")
R = TypeVar("R")
log = logging.getLogger("acemq_amqp")

#: Items of one :meth:`TaskWork.each` under way at once.
_AT_ONCE = 8


class LoopClock:
    """The machine's clocks; waiting suspends the task."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def _wait_until(future: asyncio.Future[None], deadline: Deadline) -> bool:
    """Waits for a future that only wakes; False at the deadline."""
    if deadline is None:
        await future
        return True
    done, _ = await asyncio.wait((future,), timeout=max(0.0, deadline - time.monotonic()))
    return bool(done)


async def _all_of(coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Runs them together; the first failure cancels the others and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in coroutines:
                group.create_task(coroutine)
        return
    except BaseExceptionGroup as failures:
        first = failures.exceptions[0]
    raise first  # out here, so that it keeps its own cause


class _Wakeable:
    """Waiters of one loop, woken from any thread."""

    __slots__ = ("_loop", "_thread", "_waiters")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._waiters: deque[asyncio.Future[None]] = deque()

    def _on_loop(self, call: Callable[[], None]) -> None:
        if threading.get_ident() == self._thread:
            call()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def _sleep(self, deadline: Deadline) -> bool:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            return await _wait_until(waiter, deadline)
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._wake_one()  # the wake-up was ours to use: pass it on
            raise
        finally:
            if not waiter.done() and not self._loop.is_closed():
                waiter.cancel()


class TaskQueue(_Wakeable, Generic[T]):
    """A queue whose readers are tasks."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        super().__init__()
        self._items: deque[T] = deque()

    def put(self, item: T) -> None:
        self._items.append(item)
        if threading.get_ident() != self._thread:
            self._on_loop(self._wake_one)
        elif self._waiters:
            self._wake_one()

    async def get(self, deadline: Deadline = None) -> T:
        while not self._items:
            if not await self._sleep(deadline) and not self._items:
                raise TimeoutError
        return self._items.popleft()

    def drain(self) -> list[T]:
        taken: list[T] = []
        while self._items:
            taken.append(self._items.popleft())
        return taken

    def __len__(self) -> int:
        return len(self._items)


class TaskEvent(_Wakeable):
    """A flag whose waiters are tasks."""

    __slots__ = ("_flag",)

    def __init__(self) -> None:
        super().__init__()
        self._flag = False

    def is_set(self) -> bool:
        return self._flag

    def set(self) -> None:
        self._flag = True
        self._on_loop(self._wake_all)

    def clear(self) -> None:
        self._flag = False

    def _wake_all(self) -> None:
        while self._waiters:
            self._wake_one()

    async def wait(self, deadline: Deadline = None) -> bool:
        return self._flag or await self._sleep(deadline)


class RunningTask:
    """A core coroutine as a task of the loop."""

    __slots__ = ("_task",)

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task

    def done(self) -> bool:
        return self._task.done()

    def cancel(self) -> None:
        self._task.cancel()

    async def join(self, deadline: Deadline = None) -> bool:
        if self._task is asyncio.current_task():
            return False
        limit = None if deadline is None else max(0.0, deadline - time.monotonic())
        done, _ = await asyncio.wait((self._task,), timeout=limit)
        return bool(done)


class TaskWork:
    """Runs the core on the running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        place = self._place = LoopPlace(self._loop)
        self.here = place.here
        self.refuse_elsewhere = place.refuse_elsewhere
        self._clock = LoopClock()
        self._calls = TaskCalls()
        self._codecs = TaskCodecs(self._calls)
        self._running: set[asyncio.Task[Any]] = set()
        self._watch: LoopWatch | None = None
        self._stopped = TaskEvent()

    def watch_loop(self, heartbeat: float) -> None:
        """Warns when something holds the loop for half a heartbeat (seconds)."""
        self._watch = LoopWatch(self._loop, heartbeat / 2)

    def at_end(self, left: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs a coroutine where this loop ends, and cancels all that is on it, before a stop."""
        self._task(self._guard(left), "acemq-guard")

    async def _guard(self, left: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await self._stopped.wait()
        except asyncio.CancelledError:
            if not self._stopped.is_set():
                await left()
            raise
        except GeneratorExit:  # the loop was closed with everything that was on it
            if self._place.same_process():
                warnings.warn(LEFT_OPEN, ResourceWarning, stacklevel=1)
            raise

    @property
    def clock(self) -> Clock:
        return self._clock

    def lock(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def queue(self) -> TaskQueue[Any]:
        return TaskQueue()

    def event(self) -> TaskEvent:
        return TaskEvent()

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> RunningTask:
        return RunningTask(self._task(coroutine, name))

    def later(self, delay: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay, callback)

    async def finish(self, coroutine: Coroutine[Any, Any, T]) -> T:
        task = self._loop.create_task(coroutine, name="acemq-finish")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_unwanted)
            raise

    def bind(self, function: Callable[..., Any], *, inline: bool = False) -> Call:
        code = getattr(function, "__code__", None)
        if self._watch is not None and code is not None:
            self._watch.knows(code, function.__qualname__)
        return self._calls.bind(function, inline=inline)

    def waiting(self, codec: Codec) -> WaitingCodec | None:
        return self._codecs.waiting(codec)

    async def each(
        self, function: Callable[[T], Coroutine[Any, Any, R]], items: Sequence[T]
    ) -> list[R]:
        pending = enumerate(items)
        results: dict[int, R] = {}

        async def work() -> None:
            for index, item in pending:
                results[index] = await function(item)

        await _all_of(work() for _ in range(min(_AT_ONCE, len(items))))
        return [results[index] for index in range(len(items))]

    @contextmanager
    def signals(self, on_signal: Callable[[], None]) -> Iterator[None]:
        taken: list[signal.Signals] = []
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._loop.add_signal_handler(number, on_signal)
                taken.append(number)
        except (NotImplementedError, RuntimeError, ValueError):
            log.warning(
                "acemq: signals cannot be taken on this thread or platform; "
                "run() ends when the connection is closed"
            )
        try:
            yield
        finally:
            for number in taken:
                self._loop.remove_signal_handler(number)

    def stop(self) -> None:
        self._stopped.set()
        self._calls.stop()
        self._codecs.stop()
        if self._watch is not None:
            self._watch.stop()

    def _task(self, coroutine: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = self._loop.create_task(coroutine, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("acemq: %s ended by an error", task.get_name(), exc_info=failure)


def _unwanted(task: asyncio.Task[Any]) -> None:
    """Reads an error whose caller has gone, so that nobody warns of it."""
    if not task.cancelled() and (failure := task.exception()) is not None:
        log.debug("acemq: what a cancelled caller had begun ended by an error: %s", failure)
