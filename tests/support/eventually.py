"""Waiting for what a server does in its own time, without guessing how long that takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_PAUSE = 0.05


def eventually(question: Callable[[], T], what: str, within: float = 60.0) -> T:
    """The first answer that counts as true, asking again until there is one.

    :param what: what is being waited for, for the failure's text
    :param within: seconds after which the wait has failed; far more than it ever takes
    """
    deadline = time.monotonic() + within
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what}; the last answer was {answer!r}")
        time.sleep(_PAUSE)
