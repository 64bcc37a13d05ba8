"""The broker in memory: one engine behind both flavours, for tests and demos.

``memory://name`` is one broker for the whole process, shared by every connection of
either flavour; :func:`memory_broker` gives it to tests, to look inside and to make trouble.
"""

from acemq_amqp.transports.memory.broker import MemoryBroker, StoredMessage
from acemq_amqp.transports.memory.clock import BrokerClock, RealClock, TestClock
from acemq_amqp.transports.memory.registry import forget_memory_broker, memory_broker
from acemq_amqp.transports.memory.transport import MemoryTransport

__all__ = [
    "BrokerClock",
    "MemoryBroker",
    "MemoryTransport",
    "RealClock",
    "StoredMessage",
    "TestClock",
    "forget_memory_broker",
    "memory_broker",
]
