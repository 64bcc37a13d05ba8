"""Each case that asks for ``api`` runs four times, as those of the contract do."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from tests.contract.conftest import (  # noqa: F401 - fixtures
    _bounded,
    api,
    contract_vhost,
    flavour,
    stand,
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A case that hangs fails, and the rest of the suite runs."""
    for item in items:
        if not isinstance(item, pytest.Function) or item.path.parent != Path(__file__).parent:
            continue
        if inspect.iscoroutinefunction(item.obj):
            item.obj = _bounded(item.obj)
