"""Fixtures for users' tests. Load with ``pytest_plugins = ["acemq_amqp.testing.plugin"]``."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from acemq_amqp.testing import MemoryBroker, forget_memory_broker, memory_broker


@pytest.fixture
def acemq_broker() -> Iterator[MemoryBroker]:
    """A broker in memory of the test's own, to look into; gone after the test."""
    name = f"test-{uuid.uuid4().hex}"
    yield memory_broker(name)
    forget_memory_broker(name)


@pytest.fixture
def acemq_memory(acemq_broker: MemoryBroker) -> str:
    """The URL of that broker, for ``connect``."""
    return f"memory://{acemq_broker.name}"
