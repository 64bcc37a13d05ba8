"""How a connection ends: closed, aborted, killed, or kept alive though its callers are silent."""

from __future__ import annotations

import queue
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from acemq_amqp.address import Address
from acemq_amqp.core.ports import (
    Confirmed,
    SubscriptionEvents,
    SubscriptionRequest,
    Unknown,
    Unsent,
)
from acemq_amqp.errors import (
    BrokerTimeout,
    ConfigurationError,
    ConnectionLost,
)
from acemq_amqp.transports.pika.link import PikaLink
from tests.support.eventually import eventually
from tests.support.proxy import Proxy
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


def test_closing_waits_for_confirms_and_settlements(address: Address, link: PikaLink) -> None:
    other = connect(address)
    name = declared(other, "orders")
    publish(other, message(name))
    inbox = Inbox()
    subscription = consume(other, name, inbox, prefetch=1)
    [arrival] = inbox.take(1)
    pendings = [other.submit(message(name)) for _ in range(100)]
    assert subscription.ack(arrival.tag)
    run(other.close(soon()))
    assert {run(p.outcome(soon())) for p in pendings} == {Confirmed()}
    assert inbox.ended.empty()
    assert run(link.delete_queue(name, soon())) == 100


def test_a_closed_link_sends_nothing_and_says_so(address: Address) -> None:
    seen = Seen()
    link = connect(address, seen)
    run(link.close(soon()))
    assert isinstance(publish(link, message("q")), Unsent)
    with pytest.raises(ConnectionLost, match="closed by this side"):
        run(link.look_up_queue("q", soon()))
    run(link.close(soon()))
    link.abort()
    assert seen.lost.empty()


def test_a_killed_connection_tells_what_it_knows_once(
    address: Address, link: PikaLink, orders: str
) -> None:
    seen, inbox = Seen(), Inbox()
    with Proxy(address.port) as proxy:
        killed = connect(replace(address, port=proxy.port), seen)
        subscription = consume(killed, orders, inbox)
        assert publish(killed, message(orders)) == Confirmed()
        [held] = inbox.take(1)
        proxy.hold()
        written = killed.submit(message(orders))
        eventually(lambda: written.entry.state.name == "WRITTEN", "the write")
        proxy.resume()
        proxy.cut()
        lost = seen.lost.get(timeout=20)
    assert isinstance(lost, ConnectionLost) and str(proxy.port) in str(lost)
    assert isinstance(run(written.outcome(soon())), Unknown | Confirmed)
    assert isinstance(publish(killed, message(orders)), Unsent)
    assert not subscription.live and not subscription.ack(held.tag)
    with pytest.raises(ConnectionLost):
        run(killed.look_up_queue(orders, soon()))
    run(subscription.close(soon()))
    run(killed.close(soon()))
    assert seen.lost.empty() and inbox.ended.empty()


def test_bytes_that_vanished_are_unknown_and_queued_ones_unsent(
    address: Address, orders: str
) -> None:
    seen = Seen()
    with Proxy(address.port) as proxy:
        killed = connect(replace(address, port=proxy.port), seen)
        publish(killed, message(orders))
        proxy.hold()
        # More than sockets and the stream take: the end of it stays in the ledger.
        pendings = [killed.submit(message(orders, bytes(100_000))) for _ in range(200)]
        eventually(lambda: pendings[0].entry.state.name == "WRITTEN", "the first write")
        assert isinstance(run(pendings[-1].outcome(soon(0.05))), Unsent)
        proxy.cut()
        assert isinstance(seen.lost.get(timeout=20), ConnectionLost)
    outcomes = [run(pending.outcome(soon())) for pending in pendings]
    assert isinstance(outcomes[0], Unknown) and isinstance(outcomes[-2], Unsent)


def test_bytes_that_are_no_frames_end_the_connection(link: PikaLink, seen: Seen) -> None:
    protocol = link._session.services.protocol
    assert protocol is not None
    link._session.io.call(lambda: protocol.data_received(b"\x09 is no type of frame"))
    lost = seen.lost.get(timeout=20)
    assert isinstance(lost, ConnectionLost) and "unknown type 9" in str(lost)


def test_a_connection_closed_by_the_operator_is_lost_with_his_words(
    own_link: PikaLink, seen: Seen, own_rabbitmq: RabbitMQ
) -> None:
    own_rabbitmq.close_connections("maintenance tonight")
    lost = seen.lost.get(timeout=20)
    assert lost.code == 320 and "maintenance tonight" in str(lost)


def test_an_aborted_link_is_gone_at_once(
    address: Address, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()
    link = connect(address, seen)
    link.abort()
    eventually(lambda: link._session.lost, "the end")
    assert isinstance(publish(link, message("q")), Unsent)
    eventually(lambda: not io_threads(), "the end of the thread")
    assert seen.lost.empty()
    assert [record for record in caplog.records if record.name.startswith("acemq")] == []


def test_an_overdue_call_times_out_and_later_ones_are_answered(
    address: Address, orders: str
) -> None:
    with Proxy(address.port) as proxy:
        slow = connect(replace(address, port=proxy.port))
        assert run(slow.pull(orders, soon())) is None
        sent = message(orders)
        publish(slow, sent)
        proxy.hold()
        with pytest.raises(BrokerTimeout, match=f"looking up queue '{orders}'"):
            run(slow.look_up_queue(orders, soon(0.05)))
        with pytest.raises(BrokerTimeout):
            late = SubscriptionRequest(orders, "late", 10)
            run(slow.subscribe(late, Inbox().events, soon(0.05)))
        with pytest.raises(BrokerTimeout):
            run(slow.pull(orders, soon(0.05)))
        proxy.resume()
        assert run(slow.look_up_queue(orders, soon())) is not None
        # What came for those who had gone was given back, and nobody consumes.
        arrival = pulled(slow, orders)
        assert arrival.properties.message_id == sent.message_id
        assert arrival.settling.ack(arrival.tag)
        assert run(slow.delete_queue(orders, soon())) == 0
        run(slow.close(soon()))


def test_the_heartbeat_is_kept_while_callers_do_nothing(address: Address, orders: str) -> None:
    seen, inbox = Seen(), Inbox()
    link = connect(replace(address, heartbeat=1), seen)
    subscription = consume(link, orders, inbox)
    with pytest.raises(queue.Empty):
        seen.lost.get(timeout=4.0)
    assert publish(link, message(orders)) == Confirmed()
    assert subscription.ack(inbox.take(1)[0].tag)
    run(link.close(soon()))


def test_a_dead_peer_is_noticed_by_the_heartbeat(address: Address, orders: str) -> None:
    seen = Seen()
    with Proxy(address.port) as proxy:
        link = connect(replace(address, port=proxy.port, heartbeat=1), seen)
        publish(link, message(orders))
        proxy.blackhole()
        assert isinstance(seen.lost.get(timeout=60), ConnectionLost)
    run(link.close(soon()))


def test_a_waiting_call_on_the_io_thread_is_refused_at_once(link: PikaLink, orders: str) -> None:
    told: queue.Queue[object] = queue.Queue()

    def attempt(call: Callable[[], Coroutine[Any, Any, object]]) -> None:
        try:
            told.put(run(call()))
        except ConfigurationError as error:
            told.put(error)

    for call in (
        lambda: link.look_up_queue(orders, soon()),
        lambda: link.close(soon()),
        lambda: link.submit(message(orders)).outcome(soon()),
    ):
        link._session.io.call(lambda call=call: attempt(call))  # type: ignore[misc]
        answer = told.get(timeout=20)
        assert isinstance(answer, ConfigurationError) and "I/O thread" in str(answer)


def test_a_failing_callback_costs_nobody_the_connection(link: PikaLink, orders: str) -> None:
    def fail(_given: object) -> None:
        raise ZeroDivisionError

    assert run(link.submit(message(orders), fail).outcome(soon())) == Confirmed()
    request = SubscriptionRequest(orders, "failing", 1)
    run(link.subscribe(request, SubscriptionEvents(fail, fail), soon()))
    assert publish(link, message(orders)) == Confirmed()
