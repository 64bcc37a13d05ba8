"""What users import in their own tests: the broker in memory, and a clock to advance.

``memory_broker("orders")`` is the broker behind ``memory://orders``: look into its
queues, block it, stop it, cut its connections. With ``clock=TestClock()`` a wait of an
hour is over when the test says so. ``pytest_plugins = ["acemq_amqp.testing.plugin"]``
brings the fixtures.
"""

from __future__ import annotations

from acemq_amqp.transports.memory import (
    MemoryBroker,
    StoredMessage,
    TestClock,
    forget_memory_broker,
    memory_broker,
)

__all__ = [
    "MemoryBroker",
    "StoredMessage",
    "TestClock",
    "forget_memory_broker",
    "memory_broker",
]
