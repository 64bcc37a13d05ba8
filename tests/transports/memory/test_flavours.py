"""The link under the real flavours: a wait for the alarm to pass is theirs, all else is at once."""

from __future__ import annotations

import threading

import pytest

from acemq_amqp.address import parse_address
from acemq_amqp.core.ports import Confirmed, Link, LinkEvents, Outgoing, Unsent, Work
from acemq_amqp.flavours.tasks import TaskWork
from acemq_amqp.flavours.threads import ThreadWork, drive
from acemq_amqp.properties import Properties
from acemq_amqp.topology import QueueDeclaration
from acemq_amqp.transports.memory import MemoryBroker, MemoryTransport
from tests.transports.memory.harness import bodies

MESSAGE = Outgoing("", "q", "m", Properties().encode(), b"m")


QUIET = LinkEvents(lost=lambda error: None, blocked=lambda reason: None, unblocked=lambda: None)


async def connected(work: Work, broker: MemoryBroker) -> Link:
    """A link to a broker that has a queue and, before anything is published, an alarm."""
    address = parse_address(f"memory://{broker.name}")
    link = await MemoryTransport(work).connect(address, name="n", events=QUIET, deadline=None)
    await link.declare(QueueDeclaration("q"), None)
    broker.block("low on disk")
    return link


async def test_a_task_waits_for_the_alarm_to_pass(broker: MemoryBroker) -> None:
    work = TaskWork()
    link = await connected(work, broker)
    pending = link.submit(MESSAGE)
    other = threading.Thread(target=broker.unblock)
    work.later(0, other.start)
    assert await pending.outcome(work.clock.monotonic() + 60) == Confirmed()
    other.join()
    assert bodies(broker, "q") == ["m"]


async def test_a_task_gives_up_at_its_deadline(broker: MemoryBroker) -> None:
    work = TaskWork()
    link = await connected(work, broker)
    pending = link.submit(MESSAGE)
    assert await pending.outcome(work.clock.monotonic()) == Unsent("low on disk", paused=True)
    broker.unblock()
    assert bodies(broker, "q") == []


@pytest.mark.parametrize("in_time", [True, False])
def test_a_thread_waits_in_the_same_way(broker: MemoryBroker, in_time: bool) -> None:
    work = ThreadWork()
    link = drive(connected(work, broker))
    pending = link.submit(MESSAGE)
    if in_time:
        other = threading.Thread(target=broker.unblock)
        other.start()
        assert drive(pending.outcome(work.clock.monotonic() + 60)) == Confirmed()
        other.join()
    else:
        outcome = drive(pending.outcome(work.clock.monotonic()))
        assert outcome == Unsent("low on disk", paused=True)
        broker.unblock()
    assert bodies(broker, "q") == (["m"] if in_time else [])
    work.stop()


async def test_both_flavours_meet_at_one_broker(broker: MemoryBroker) -> None:
    tasks, threads = TaskWork(), ThreadWork()
    one = await connected(tasks, broker)
    broker.unblock()
    two = drive(connected(threads, broker))
    broker.unblock()
    assert await one.submit(MESSAGE).outcome(None) == Confirmed()
    arrival = drive(two.pull("q", None))
    assert arrival is not None and arrival.body == b"m"
    threads.stop()
