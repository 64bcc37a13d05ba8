"""The blocking flavour behind the async one's face, so that a case is written once.

A blocking connection and everything made from it stand behind an :class:`Awaited`: what
is a coroutine in the async flavour runs in a thread of its own and is awaited. Inside a
handler, where there is no event loop, it is called on the spot, as a user would.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import Any

import acemq_amqp
from acemq_amqp import blocking

#: which async class a blocking one is the twin of
TWINS: dict[type, type] = {
    blocking.Connection: acemq_amqp.Connection,
    blocking.Consumer: acemq_amqp.Consumer,
    blocking.Publisher: acemq_amqp.Publisher,
    blocking.Delivery: acemq_amqp.Delivery,
}
CALLER = "contract-caller"


class Awaited:
    """One blocking object, with the coroutines that its async twin has."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._twin = TWINS[type(inner)]

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if inspect.iscoroutinefunction(getattr(self._twin, name, None)):
            return _awaitable(value)
        if inspect.ismethod(value):
            return lambda *args, **options: awaited(value(*args, **options))
        return awaited(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Awaited) and bool(other._inner == self._inner)

    def __hash__(self) -> int:
        return hash(self._inner)

    def __repr__(self) -> str:
        return repr(self._inner)

    async def __aenter__(self) -> Awaited:
        await run(self._inner.__enter__)
        return self

    async def __aexit__(self, *exit_: Any) -> None:
        await run(lambda: self._inner.__exit__(*exit_))


def awaited(value: Any) -> Any:
    """A value as the async flavour would give it."""
    if type(value) is tuple:
        return tuple(awaited(each) for each in value)
    return Awaited(value) if type(value) in TWINS else value


def _awaitable(method: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*args: Any, **options: Any) -> Any:
        return awaited(await run(lambda: method(*args, **options)))

    return call


async def run(call: Callable[[], Any]) -> Any:
    """Calls in a thread of its own and waits for it; on the spot where no loop runs."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return call()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(settler: Callable[[Any], None], value: Any) -> None:
        if not done.done():
            settler(value)

    def work() -> None:
        try:
            result = call()
        except BaseException as failure:
            loop.call_soon_threadsafe(settle, done.set_exception, failure)
        else:
            loop.call_soon_threadsafe(settle, done.set_result, result)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name=CALLER, daemon=True).start()
    return await done
