"""The brokers of this process, by name."""

from __future__ import annotations

import threading

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.transports.memory.broker import MemoryBroker
from acemq_amqp.transports.memory.clock import BrokerClock

_brokers: dict[str, MemoryBroker] = {}
_lock = threading.Lock()


def memory_broker(name: str, *, clock: BrokerClock | None = None) -> MemoryBroker:
    """The broker behind ``memory://name``: always the same one, made on first use.

    It keeps what was stored until :func:`forget_memory_broker`, whether anybody is connected
    or not.

    :param clock: its time, a ``TestClock`` for instance; given before anybody connects
    :raises ConfigurationError: it is there already, with another clock
    """
    with _lock:
        broker = _brokers.get(name)
        if broker is None:
            broker = _brokers[name] = MemoryBroker(name, clock)
        elif clock is not None and broker.clock is not clock:
            raise ConfigurationError(
                f"acemq: the in-memory broker {name!r} is there already, with another clock; "
                "get it with its clock before the first connection, or use another name"
            )
        return broker


def forget_memory_broker(name: str) -> None:
    """Stops a broker and drops all it holds; the next of that name begins empty."""
    with _lock:
        broker = _brokers.pop(name, None)
    if broker is not None:
        broker.stop()
