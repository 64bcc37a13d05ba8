"""Waiting for what happens in its own time: by asking again, never by guessing its length."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

#: Far more than anything here ever takes: reaching it is a failure.
WITHIN = 30.0
_PAUSE = 0.005


@overload
async def until(
    question: Callable[[], Awaitable[T | None]], what: str, within: float = WITHIN
) -> T: ...
@overload
async def until(question: Callable[[], T | None], what: str, within: float = WITHIN) -> T: ...
async def until(question: Callable[[], Any], what: str, within: float = WITHIN) -> Any:
    """The first answer that counts as true, asking again until there is one.

    :param what: what is being waited for, for the failure's text
    """
    deadline = time.monotonic() + within
    pause = _PAUSE
    while True:
        answer = question()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what}; the last answer: {answer!r}")
        await asyncio.sleep(pause)
        pause = min(0.1, pause * 1.5)
