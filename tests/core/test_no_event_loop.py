"""The core needs no event loop: under a policy that gives none, it runs on blocking ports."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from acemq_amqp import Topology, blocking, fixed_retry, reject, retry
from acemq_amqp.transports.memory import forget_memory_broker, memory_broker
from tests.core.quietly import policy_that_refuses
from tests.support.eventually import eventually

URL = "memory://no-event-loop"


@pytest.fixture(autouse=True)
def no_event_loop() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # policies go in Python 3.16
        with policy_that_refuses():
            yield
    forget_memory_broker("no-event-loop")


def test_the_policy_gives_no_loop() -> None:
    with pytest.raises(AssertionError, match="event loop"):
        asyncio.new_event_loop()


def test_the_main_job_runs_without_a_loop() -> None:
    handled: list[Any] = []
    done = threading.Event()

    def handle(message: Any) -> Any:
        handled.append((message.payload, message.envelope.attempt))
        if message.payload == "last":
            done.set()
        if message.payload == "again":
            return retry() if message.envelope.attempt == 1 else None
        return reject("no") if message.payload == "bad" else None

    with blocking.connect(URL, retry=fixed_retry(2, 0.01)) as mq:
        mq.declare(Topology().queue("orders"))
        with mq.consume("orders", handle, concurrency=2):
            results = mq.publisher("", "orders").send_many(["good", "bad", "again", "last"])
            assert all(result.routed for result in results)
            assert done.wait(30)
            eventually(lambda: ("again", 2) in handled, "the retry")
            eventually(lambda: mq.message_count("orders.dlq") == 1, "the dead letter")
        assert mq.health().ok
        assert mq.verify(Topology().queue("orders")) == []
    assert ("good", 1) in handled


def test_an_alarm_and_a_lost_connection_are_waited_out_without_a_loop() -> None:
    broker = memory_broker("no-event-loop")
    with blocking.connect(URL, timeout=0.2) as mq:
        mq.declare(Topology().queue("orders"))
        broker.block("low on disk")
        with pytest.raises(Exception, match="low on disk"):
            mq.publisher("", "orders").send(1)
        broker.unblock()
        broker.kill_connections()
        eventually(lambda: mq.health(1.0).recoveries >= 1, "the recovery")
        eventually(lambda: _sent(mq), "a send after the recovery")


def _sent(mq: blocking.Connection) -> bool:
    try:
        return mq.publisher("", "orders").send(2).routed
    except blocking.PublishError:
        return False
