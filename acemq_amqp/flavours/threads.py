"""The blocking flavour's work: threads that drive core coroutines.

Every port here waits before it returns, so a core coroutine never suspends and
one ``send`` runs it to its end. Worker loops are core coroutines too: each has a
thread that drives it.
"""

from __future__ import annotations

import inspect
import logging
import queue
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Generic, TypeVar

from acemq_amqp.codec import Codec
from acemq_amqp.core.ports import Call, Clock, Deadline, Timer, WaitingCodec
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.flavours.calls import checked_callable, is_coroutine_function
from acemq_amqp.flavours.place import ProcessPlace
from acemq_amqp.flavours.timers import TimerThread
from acemq_amqp.flavours.workers import broke_off

T = TypeVar("T")
R = TypeVar("R")
log = logging.getLogger("acemq_amqp")


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine whose ports block, and gives its result."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    with suppress(RuntimeError):  # an await in its ``finally`` must not hide the bug named below
        coroutine.close()
    raise RuntimeError("acemq: a blocking port suspended; this is a bug in acemq-amqp")


def _remaining(deadline: Deadline) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


class ThreadClock:
    """The machine's clocks; waiting blocks the thread."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class ThreadQueue(Generic[T]):
    """A queue whose readers are threads."""

    __slots__ = ("_items", "put")

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[T] = queue.SimpleQueue()
        self.put: Callable[[T], None] = self._items.put

    async def get(self, deadline: Deadline = None) -> T:
        try:
            return self._items.get(timeout=_remaining(deadline))
        except queue.Empty:
            raise TimeoutError from None

    def drain(self) -> list[T]:
        taken: list[T] = []
        try:
            while True:
                taken.append(self._items.get_nowait())
        except queue.Empty:
            return taken

    def __len__(self) -> int:
        return self._items.qsize()


class ThreadEvent:
    """A flag whose waiters are threads."""

    __slots__ = ("_event", "clear", "is_set", "set")

    def __init__(self) -> None:
        self._event = threading.Event()
        self.is_set = self._event.is_set
        self.set = self._event.set
        self.clear = self._event.clear

    async def wait(self, deadline: Deadline = None) -> bool:
        return self._event.wait(_remaining(deadline))


class RunningThread:
    """A core coroutine on a thread of its own. It cannot be cancelled, only asked to stop."""

    __slots__ = ("_thread",)

    def __init__(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        # a daemon: a connection that was forgotten must not hold the interpreter
        self._thread = threading.Thread(
            target=self._run, args=(coroutine, name), name=name, daemon=True
        )
        self._thread.start()

    @staticmethod
    def _run(coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        try:
            drive(coroutine)
        except Exception:
            log.exception("acemq: %s ended by an error", name)

    def done(self) -> bool:
        return not self._thread.is_alive()

    def cancel(self) -> None:
        pass

    async def join(self, deadline: Deadline = None) -> bool:
        if self._thread is threading.current_thread():
            return False
        self._thread.join(_remaining(deadline))
        return not self._thread.is_alive()


class ThreadWork:
    """Runs the core on threads."""

    def __init__(self) -> None:
        self._clock = ThreadClock()
        self._timers = TimerThread()
        place = ProcessPlace()
        self.here = place.here
        self.refuse_elsewhere = place.refuse_elsewhere

    @property
    def clock(self) -> Clock:
        return self._clock

    def lock(self) -> AbstractContextManager[Any]:
        return threading.Lock()

    def queue(self) -> ThreadQueue[Any]:
        return ThreadQueue()

    def event(self) -> ThreadEvent:
        return ThreadEvent()

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> RunningThread:
        return RunningThread(coroutine, name)

    def later(self, delay: float, callback: Callable[[], None]) -> Timer:
        return self._timers.later(delay, callback)

    async def finish(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return await coroutine

    def bind(self, function: Callable[..., Any], *, inline: bool = False) -> Call:
        function = checked_callable(function)
        if is_coroutine_function(function):
            raise ConfigurationError(
                f"acemq: {getattr(function, '__qualname__', function)!r} is a coroutine function, "
                "and the blocking flavour has no event loop to run it on; pass a plain function, "
                "or use acemq_amqp instead of acemq_amqp.blocking"
            )

        async def call(*args: Any) -> Any:
            try:
                result = function(*args)
            except Exception:
                raise
            except BaseException as exit_:
                raise broke_off(function, exit_) from exit_
            if inspect.iscoroutine(result):
                result.close()
            return result

        return call

    def waiting(self, codec: Codec) -> WaitingCodec | None:
        return None  # the caller's thread is the codec's to wait in

    async def each(
        self, function: Callable[[T], Coroutine[Any, Any, R]], items: Sequence[T]
    ) -> list[R]:
        return [await function(item) for item in items]

    @contextmanager
    def signals(self, on_signal: Callable[[], None]) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            log.warning(
                "acemq: signals can only be taken on the main thread; "
                "run() ends when the connection is closed"
            )
            yield
            return
        numbers = (signal.SIGTERM, signal.SIGINT)
        before = [signal.signal(number, lambda *_: on_signal()) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)

    def stop(self) -> None:
        self._timers.stop()
