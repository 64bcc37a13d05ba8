"""The fixtures that users load: a broker of the test's own, under a URL of its own."""

from __future__ import annotations

import threading

from acemq_amqp import Topology, blocking
from acemq_amqp.testing import MemoryBroker

pytest_plugins = ["acemq_amqp.testing.plugin"]


def test_a_handler_is_tried_against_a_broker_in_memory(
    acemq_memory: str, acemq_broker: MemoryBroker
) -> None:
    handled = threading.Event()
    with blocking.connect(acemq_memory) as mq:
        mq.declare(Topology().queue("orders"))
        mq.publisher(routing_key="orders").send({"order": 1})
        assert acemq_broker.queue_depth("orders") == 1
        mq.consume("orders", lambda message: handled.set())
        assert handled.wait(10)
    assert acemq_broker.queue_depth("orders") == 0


def test_each_test_has_a_broker_of_its_own(acemq_broker: MemoryBroker) -> None:
    assert list(acemq_broker.queues()) == []
