"""From an exchange to queues: along bindings, through exchanges, each visited once.

What a key leads to is remembered until a binding, a queue or an exchange comes or
goes; only where a headers exchange lies on the way is it worked out every time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from acemq_amqp.properties import Properties
from acemq_amqp.transports.memory.exchanges import Exchange

_MOST_REMEMBERED = 4096


class Named(Protocol):
    """A destination at the end of the way."""

    @property
    def name(self) -> str: ...


Q = TypeVar("Q", bound=Named)


class Router(Generic[Q]):
    """Finds the queues of a message. Reads the exchanges and queues of its virtual host."""

    def __init__(self, exchanges: Mapping[str, Exchange], queues: Mapping[str, Q]) -> None:
        self._exchanges = exchanges
        self._queues = queues
        self._remembered: dict[tuple[str, tuple[str, ...]], tuple[Q, ...]] = {}

    def forget(self) -> None:
        """The topology changed."""
        self._remembered.clear()

    def route(self, exchange: str, keys: tuple[str, ...], properties: Properties) -> tuple[Q, ...]:
        """The queues that get a message, each once. The exchange exists, or is the default one."""
        remembered = self._remembered.get((exchange, keys))
        if remembered is not None:
            return remembered
        found: dict[str, None] = {}
        by_headers = self._walk(exchange, keys, properties, found)
        queues = tuple(self._queues[name] for name in found if name in self._queues)
        if not by_headers:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[exchange, keys] = queues
        return queues

    def _walk(
        self,
        start: str,
        keys: tuple[str, ...],
        properties: Properties,
        found: dict[str, None],
    ) -> bool:
        """Notes the queues found; whether headers had a say."""
        by_headers = False
        seen, ahead = {start}, [start]
        while ahead:
            name = ahead.pop()
            exchange = self._exchanges.get(name)
            if exchange is None:
                if not name:
                    found.update(dict.fromkeys(keys))
                continue
            by_headers |= exchange.declaration.kind == "headers"
            onward = self._onward(exchange, keys, properties, found)
            ahead.extend(onward - seen)
            seen |= onward
        return by_headers

    @staticmethod
    def _onward(
        exchange: Exchange, keys: tuple[str, ...], properties: Properties, found: dict[str, None]
    ) -> set[str]:
        onward: set[str] = set()
        nobody = True
        for binding in exchange.wanting(keys, properties):
            nobody = False
            if binding.to_exchange:
                onward.add(binding.destination)
            else:
                found[binding.destination] = None
        if nobody and exchange.alternate is not None:
            onward.add(exchange.alternate)
        return onward
