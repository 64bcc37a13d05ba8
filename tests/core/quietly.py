"""An event-loop policy that refuses, for as long as a context is open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn


def _refused(*_: Any) -> NoReturn:
    raise AssertionError("the core asked for an event loop")


@contextmanager
def policy_that_refuses() -> Iterator[None]:
    """No loop can be made, got or set."""
    refusing = type(
        "Refusing",
        (asyncio.DefaultEventLoopPolicy,),
        {name: _refused for name in ("get_event_loop", "set_event_loop", "new_event_loop")},
    )
    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(refusing())
    try:
        yield
    finally:
        asyncio.set_event_loop_policy(before)
