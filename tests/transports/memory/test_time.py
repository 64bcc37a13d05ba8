"""The real clock, and many threads."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator

import pytest

from acemq_amqp.core.ports import Arrival, SubscriptionEvents, SubscriptionRequest
from acemq_amqp.transports.memory import (
    MemoryBroker,
    TestClock,
    forget_memory_broker,
    memory_broker,
)
from tests.transports.memory.harness import Client, bodies, drive


def timers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "acemq-memory-clock" and t.is_alive()]


@pytest.fixture
def real() -> Iterator[MemoryBroker]:
    name = uuid.uuid4().hex
    yield memory_broker(name)
    forget_memory_broker(name)


def test_expiry_needs_nobody_to_look(real: MemoryBroker) -> None:
    client = Client(real)
    client.queue("dead")
    client.queue(
        "q",
        {
            "x-message-ttl": 20,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        },
    )
    moved = threading.Event()

    def arrived(arrival: Arrival) -> None:
        moved.set()

    request = SubscriptionRequest("dead", "tag", 1)
    drive(client.link.subscribe(request, SubscriptionEvents(arrived, print), None))
    client.publish("q", "m")
    assert moved.wait(30)
    assert bodies(real, "q") == []


def test_no_thread_is_left_when_the_last_connection_closes(real: MemoryBroker) -> None:
    first, second = Client(real), Client(real)
    first.queue("q", {"x-message-ttl": 3_600_000})
    assert timers() == []
    first.publish("q", "m")
    assert len(timers()) == 1
    first.close()
    assert len(timers()) == 1
    waiting = timers()
    second.close()
    for timer in waiting:
        timer.join(30)
    assert timers() == []
    Client(real)
    assert len(timers()) == 1, "who comes back finds the message's time running"


def test_actions_happen_at_their_own_moment_in_order() -> None:
    clock = TestClock(100.0)
    seen: list[tuple[str, float]] = []

    def note(what: str) -> None:
        seen.append((what, clock.now()))

    def early() -> None:
        note("early")
        clock.call_at(102, lambda: note("follows"))

    clock.call_at(103, lambda: note("late"))
    clock.call_at(101, early)
    clock.call_at(102.5, lambda: note("never")).cancel()
    clock.advance(2.9)
    assert seen == [("early", 101), ("follows", 102)]
    clock.advance(0.1)
    assert seen[-1] == ("late", 103)


def test_many_threads_lose_and_double_nothing(broker: MemoryBroker) -> None:
    """Each publisher's messages reach the one consumer once, and in the order they were sent."""
    receiver = Client(broker)
    receiver.queue("q")
    consuming = receiver.consume("q", prefetch=50)
    done = threading.Event()
    seen: list[str] = []

    def settle() -> None:
        while len(seen) < 1200:
            while len(consuming.arrivals) > len(seen):
                arrival = consuming.arrivals[len(seen)]
                seen.append(arrival.body.decode())
                assert arrival.settling.ack(arrival.tag)
        done.set()

    def publish(who: int) -> None:
        client = Client(broker)
        for n in range(300):
            client.publish("q", f"{who}.{n}")

    threads = [threading.Thread(target=publish, args=(who,)) for who in range(4)]
    threads.append(threading.Thread(target=settle, daemon=True))
    for thread in threads:
        thread.start()
    assert done.wait(60)
    for thread in threads:
        thread.join(60)
    for who in range(4):
        assert [t for t in seen if t.startswith(f"{who}.")] == [f"{who}.{n}" for n in range(300)]
    assert broker.unsettled("q") == 0 and bodies(broker, "q") == []
