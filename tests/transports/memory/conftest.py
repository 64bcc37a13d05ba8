"""A broker in memory of one's own, with time that stands still."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from acemq_amqp.transports.memory import (
    MemoryBroker,
    TestClock,
    forget_memory_broker,
    memory_broker,
)
from tests.transports.memory.harness import Client


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
def broker(clock: TestClock) -> Iterator[MemoryBroker]:
    name = uuid.uuid4().hex
    yield memory_broker(name, clock=clock)
    forget_memory_broker(name)


@pytest.fixture
def client(broker: MemoryBroker) -> Client:
    return Client(broker)
