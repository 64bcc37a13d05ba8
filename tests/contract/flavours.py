"""The two flavours, as a case sees them: alike."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

import acemq_amqp
from acemq_amqp import Connection, Message, blocking
from acemq_amqp.flavours.threads import drive
from tests.contract import threads


class Flavour(Protocol):
    """How connections are made and handlers written."""

    @property
    def name(self) -> str: ...

    async def connect(self, url: str, **options: Any) -> Connection: ...

    def handler(self, function: Callable[[Message], Awaitable[Any]]) -> Callable[[Message], Any]:
        """A handler that calls the toolkit, as this flavour's users write it."""


class AsyncFlavour:
    """``acemq_amqp`` as it is."""

    name = "async"

    async def connect(self, url: str, **options: Any) -> Connection:
        return await acemq_amqp.connect(url, **options)

    def handler(self, function: Callable[[Message], Awaitable[Any]]) -> Callable[[Message], Any]:
        return function


class BlockingFlavour:
    """``acemq_amqp.blocking``, awaited by way of threads."""

    name = "blocking"

    async def connect(self, url: str, **options: Any) -> Connection:
        connection = await threads.run(lambda: blocking.connect(url, **options))
        return cast(Connection, threads.Awaited(connection))

    def handler(self, function: Callable[[Message], Awaitable[Any]]) -> Callable[[Message], Any]:
        @functools.wraps(function)
        def handle(message: Message) -> Any:
            return drive(_coroutine(function(message)))

        # wraps() shows the coroutine function through; a handler is judged by what it is.
        del handle.__wrapped__
        return handle


async def _coroutine(answer: Awaitable[Any]) -> Any:
    return await answer


FLAVOURS: dict[str, Flavour] = {each.name: each for each in (AsyncFlavour(), BlockingFlavour())}


def other_than(flavour: Flavour) -> Flavour:
    """The other one."""
    return next(each for each in FLAVOURS.values() if each is not flavour)
