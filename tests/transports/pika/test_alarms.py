"""Under an alarm: publishing pauses, nothing else does, and closing returns."""

from __future__ import annotations

import pytest

from acemq_amqp.address import Address
from acemq_amqp.core.ports import (
    Confirmed,
    Unknown,
    Unsent,
)
from acemq_amqp.transports.pika.link import PikaLink
from tests.support.rabbitmq import RabbitMQ
from tests.transports.pika.stand import (
    Inbox,
    Seen,
    connect,
    consume,
    declared,
    io_threads,
    message,
    publish,
    pulled,
    run,
    soon,
)

pytestmark = pytest.mark.server


def test_an_alarm_pauses_publishing_and_nothing_else(
    own_link: PikaLink, seen: Seen, own_rabbitmq: RabbitMQ
) -> None:
    link, orders = own_link, declared(own_link, "orders")
    own_rabbitmq.alarm()
    flying = link.submit(message(orders, b"flying"))
    assert "memory" in seen.blocked.get(timeout=20)
    assert link.blocked_reason is not None and "memory" in link.blocked_reason
    paused = run(link.submit(message(orders, b"withdrawn")).outcome(soon(0.1)))
    assert isinstance(paused, Unsent) and paused.paused and "memory" in paused.reason
    assert isinstance(run(flying.outcome(soon(0.1))), Unknown)
    waiting = link.submit(message(orders, b"waiting"))
    own_rabbitmq.clear_alarm()
    assert seen.unblocked.get(timeout=20) and link.blocked_reason is None
    assert run(waiting.outcome(soon())) == Confirmed()
    assert publish(link, message(orders, b"after")) == Confirmed()
    bodies = [pulled(link, orders).body for _ in range(3)]
    assert bodies == [b"flying", b"waiting", b"after"]
    assert run(link.pull(orders, soon())) is None


def test_acks_go_on_under_an_alarm(
    own_address: Address, own_link: PikaLink, own_rabbitmq: RabbitMQ
) -> None:
    name = declared(own_link, "orders")
    publish(own_link, message(name))
    reader = connect(own_address)
    inbox = Inbox()
    subscription = consume(reader, name, inbox)
    [arrival] = inbox.take(1)
    own_rabbitmq.alarm()
    assert subscription.ack(arrival.tag)
    run(subscription.close(soon()))
    own_rabbitmq.clear_alarm()
    run(reader.close(soon()))
    assert run(own_link.delete_queue(name, soon())) == 0


def test_closing_under_an_alarm_returns_at_the_deadline(
    own_address: Address, own_rabbitmq: RabbitMQ
) -> None:
    seen = Seen()
    link = connect(own_address, seen)
    name = declared(link, "orders")
    own_rabbitmq.alarm()
    written = link.submit(message(name))
    seen.blocked.get(timeout=20)
    queued = link.submit(message(name))
    run(link.close(soon(0.3)))
    assert isinstance(run(written.outcome(soon())), Unknown)
    unsent = run(queued.outcome(soon()))
    assert isinstance(unsent, Unsent)
    assert io_threads() == []
    own_rabbitmq.clear_alarm()
    assert seen.lost.empty()
