"""What the handler of one consumer answered, counted beside it."""

from __future__ import annotations

import functools
import inspect
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from acemq_amqp.ack import Ack, AckKind, decision_for, decision_of
from acemq_amqp.flavours.calls import checked_callable, is_coroutine_function
from acemq_amqp.message import Message


@dataclass(frozen=True, slots=True)
class ConsumerCounters:
    """What one consumer of a group has done.

    :ivar number: its number in the group, from 1
    :ivar tag: what the broker calls it
    :ivar in_flight: handlers that run now
    :ivar answers: how often its handler gave which answer; an exception is the answer that it
        means. What could not be decoded never reached the handler, and is not counted here
    """

    number: int
    tag: str
    in_flight: int
    answers: Mapping[AckKind, int]

    @property
    def handled(self) -> int:
        """Handlers that have ended."""
        return sum(self.answers.values())


class AnswerCounter:
    """Counts the answers of a handler, in any thread."""

    def __init__(self) -> None:
        self._answers: Counter[AckKind] = Counter()
        self._lock = threading.Lock()

    def answers(self) -> Mapping[AckKind, int]:
        """The counts as they are now."""
        with self._lock:
            return dict(self._answers)

    def counting(self, handler: Any) -> Callable[[Message], Any]:
        """The same handler, of the same kind (``def`` or ``async def``), counted.

        :raises ConfigurationError: it cannot be called
        """
        checked_callable(handler)
        return self._awaited(handler) if is_coroutine_function(handler) else self._called(handler)

    def _awaited(self, handler: Any) -> Callable[[Message], Any]:
        @functools.wraps(handler, updated=())  # warnings call a handler by its name
        async def counted(message: Message) -> Ack:
            return await self._answer_of(handler(message))

        return counted

    def _called(self, handler: Any) -> Callable[[Message], Any]:
        @functools.wraps(handler, updated=())
        def counted(message: Message) -> Any:
            try:
                returned = handler(message)
            except Exception as failure:
                self._count(decision_for(failure))
                raise
            if inspect.isawaitable(returned):
                return self._answer_of(returned)
            return self._count(decision_of(returned))

        return counted

    async def _answer_of(self, awaitable: Awaitable[Any]) -> Ack:
        try:
            return self._count(decision_of(await awaitable))
        except Exception as failure:
            self._count(decision_for(failure))
            raise

    def _count(self, ack: Ack) -> Ack:
        with self._lock:
            self._answers[ack.kind] += 1
        return ack
