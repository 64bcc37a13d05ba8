"""How one text serves stores in both flavours.

A store's methods are ``async def``. Where they are awaited on an event loop, what blocks goes to
threads of the store's own; where they are driven, in a thread, it is called there and then, and the
coroutine never suspends. :func:`driven` runs such a coroutine; :func:`off_the_loop` is what the
stores put their blocking work through.
"""

from __future__ import annotations

import inspect
from asyncio import _get_running_loop
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final, Generic, TypeVar

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.flavours.calls import is_coroutine_function
from acemq_amqp.flavours.workers import WorkerThreads

T = TypeVar("T")

#: set while a coroutine is driven: a loop may run in that thread all the same, as in a notebook
_driving: Final[ContextVar[bool]] = ContextVar("acemq_driving", default=False)


def driven(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a store's coroutine in this thread, and gives its result.

    :raises ConfigurationError: it wants to wait, so the store works on an event loop only
    """
    try:
        with driving():
            coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    with suppress(RuntimeError):
        coroutine.close()
    raise ConfigurationError(
        f"acemq: {getattr(coroutine, '__qualname__', coroutine)} awaited something, and no event "
        "loop runs here: a store that awaits wants 'async def' handlers and the async flavour"
    )


@contextmanager
def driving(wanted: bool = True) -> Iterator[None]:
    """Says that what is awaited inside is driven, and must not suspend."""
    before = _driving.set(wanted)
    try:
        yield
    finally:
        _driving.reset(before)


def on_a_loop() -> bool:
    """Whether what blocks here would hold up an event loop."""
    return not _driving.get() and _get_running_loop() is not None


async def off_the_loop(threads: WorkerThreads, function: Callable[..., T], *args: Any) -> T:
    """Calls what blocks: in those threads where a loop would be held up, else here."""
    if not on_a_loop():
        return function(*args)
    result: T = await threads.run(function, *args)
    return result


async def asked(threads: WorkerThreads, method: Callable[..., Any], *args: Any) -> Any:
    """What a user's store answers, whose method is a coroutine function, or a plain one.

    :param threads: where a plain one is called, which may block, if a loop runs here
    """
    if is_coroutine_function(method):
        return await method(*args)
    answer = await off_the_loop(threads, method, *args)
    return await answer if inspect.isawaitable(answer) else answer


class Done(Awaitable[T], Generic[T]):
    """Something that was done when it was called, and may be awaited all the same.

    So that one method serves ``store.add(...)`` and ``await store.add(...)``.
    """

    __slots__ = ("_result",)

    def __init__(self, result: T) -> None:
        self._result = result

    def __await__(self) -> Generator[Any, None, T]:
        return self._result
        yield  # what makes this a generator
