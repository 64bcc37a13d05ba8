"""Cases that hang: each of a folder fails after a while, and the rest of the suite runs."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

#: A case that takes so long hangs; seconds.
_HANGS: Final = 60.0


def bounding(conftest: str) -> Callable[[list[pytest.Item]], None]:
    """The hook ``pytest_collection_modifyitems`` of a ``conftest.py``, for the files beside it."""

    def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
        for item in items:
            beside = item.path.parent == Path(conftest).parent
            if (
                beside
                and isinstance(item, pytest.Function)
                and inspect.iscoroutinefunction(item.obj)
            ):
                item.obj = _bounded(item.obj)

    return pytest_collection_modifyitems


def _bounded(case: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(case)
    async def bounded(**fixtures: Any) -> None:
        async with asyncio.timeout(_HANGS):
            await case(**fixtures)

    return bounded
