"""Handlers that remember: what they saw, how many ran at once, and when they may go on.

All are plain functions, which both flavours run on worker threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from acemq_amqp import Message
from tests.contract.waiting import WITHIN, until

Answer = Callable[[Message], Any]


def accepted(message: Message) -> None:
    """Accepts."""


class Seen:
    """Records every message, then answers as ``answer`` does."""

    def __init__(self, answer: Answer = accepted) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self.messages: list[Message] = []

    def __call__(self, message: Message) -> Any:
        with self._lock:
            self.messages.append(message)
        return self._answer(message)

    @property
    def payloads(self) -> list[Any]:
        with self._lock:
            return [message.payload for message in self.messages]

    @property
    def attempts(self) -> list[int]:
        with self._lock:
            return [message.envelope.attempt for message in self.messages]

    async def count(self, wanted: int) -> list[Message]:
        """Waits until so many were seen, and gives all."""
        await until(lambda: len(self.messages) >= wanted, f"{wanted} handled messages")
        return self.messages

    async def first(self) -> Message:
        """Waits for the first."""
        return (await self.count(1))[0]


class Gate:
    """Holds whoever comes until it is opened; tells how many wait, and how many at most did."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._lock = threading.Lock()
        self.waiting = 0
        self.most = 0

    def hold(self, message: Message | None = None) -> None:
        """A handler, or part of one."""
        with self._lock:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
        try:
            assert self._open.wait(2 * WITHIN), "the gate was never opened"
        finally:
            with self._lock:
                self.waiting -= 1

    def open(self) -> None:
        self._open.set()

    async def holds(self, wanted: int) -> None:
        """Waits until so many wait here."""
        await until(lambda: self.waiting >= wanted, f"{wanted} waiting at the gate")


def by_payload(**answers: Answer) -> Answer:
    """Answers by what the payload is: ``by_payload(bad=reject_it)``; accepts the rest."""
    return lambda message: answers.get(str(message.payload), accepted)(message)


def answering(answer: Any) -> Answer:
    """Always the same answer."""
    return lambda message: answer


def raising(error: BaseException) -> Answer:
    """Always the same error."""

    def handle(message: Message) -> Any:
        raise error

    return handle
