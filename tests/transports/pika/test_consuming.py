"""Consuming: what is delivered, settled, given back, and how a consumer ends."""

from __future__ import annotations

import pytest

from acemq_amqp.core.ports import (
    Confirmed,
    SubscriptionRequest,
)
from acemq_amqp.errors import (
    AccessRefused,
    ConfigurationError,
    NotFound,
)
from acemq_amqp.transports.pika.link import PikaLink
from acemq_amqp.transports.pika.subscription import PikaSubscription
from acemq_amqp.transports.wire.frames import ack_frame
from tests.transports.pika.stand import (
    Inbox,
    consume,
    depth,
    message,
    publish,
    pulled,
    run,
    soon,
)

pytestmark = pytest.mark.server


def test_acks_reach_the_broker_in_whatever_order_they_come(link: PikaLink, orders: str) -> None:
    for pending in [link.submit(message(orders)) for _ in range(50)]:
        assert run(pending.outcome(soon())) == Confirmed()
    inbox = Inbox()
    subscription = consume(link, orders, inbox)
    arrivals = inbox.take(50)
    kept = arrivals[20]
    for arrival in [*arrivals[21:], *reversed(arrivals[:20])]:
        assert subscription.ack(arrival.tag)
    run(subscription.close(soon()))
    assert depth(link, orders) == 1
    left = pulled(link, orders)
    assert left.properties.message_id == kept.properties.message_id
    assert left.redelivered


def test_a_delivery_is_settled_once(link: PikaLink, orders: str) -> None:
    publish(link, message(orders))
    inbox = Inbox()
    subscription = consume(link, orders, inbox)
    [arrival] = inbox.take(1)
    assert subscription.ack(arrival.tag)
    assert not subscription.ack(arrival.tag)
    assert not subscription.requeue(arrival.tag)
    assert not subscription.ack(4711)
    publish(link, message(orders))
    [other] = inbox.take(1)
    assert subscription.ack(other.tag) and subscription.live


def test_a_requeued_message_comes_again(link: PikaLink, orders: str) -> None:
    publish(link, message(orders))
    inbox = Inbox()
    subscription = consume(link, orders, inbox)
    [first] = inbox.take(1)
    assert subscription.requeue(first.tag)
    [second] = inbox.take(1)
    assert second.redelivered and second.properties.message_id == first.properties.message_id


def test_the_driver_writes_nothing_about_deliveries_when_a_channel_closes(
    link: PikaLink, orders: str
) -> None:
    for _ in range(10):
        publish(link, message(orders))
    inbox = Inbox()
    subscription = consume(link, orders, inbox, prefetch=5)
    inbox.take(5)
    stream = link._session.stream
    written: list[bytes] = []
    pass_on, stream.write = stream.write, lambda data: (written.append(data), pass_on(data))  # type: ignore
    run(subscription.close(soon()))
    assert [frame[7:11] for frame in written] == [b"\x00\x14\x00\x28"]  # channel.close, alone
    assert depth(link, orders) == 10


def test_the_prefetch_bounds_what_one_consumer_holds(link: PikaLink, orders: str) -> None:
    for _ in range(10):
        publish(link, message(orders))
    first, second = Inbox(), Inbox()
    one = consume(link, orders, first, prefetch=1)
    [held] = first.take(1)
    assert depth(link, orders) == 9
    four = consume(link, orders, second, prefetch=4)
    held_by_four = second.take(4)
    assert depth(link, orders) == 5
    assert all(four.ack(a.tag) for a in held_by_four)
    assert all(four.ack(second.take(1)[0].tag) for _ in range(5))
    assert first.arrivals.empty() and one.ack(held.tag)


def test_a_cancelled_consumer_can_still_settle(link: PikaLink, orders: str) -> None:
    publish(link, message(orders))
    inbox = Inbox()
    subscription = consume(link, orders, inbox)
    [held] = inbox.take(1)
    run(subscription.cancel(soon()))
    publish(link, message(orders))
    assert subscription.ack(held.tag)
    run(subscription.close(soon()))
    assert depth(link, orders) == 1 and inbox.arrivals.empty() and inbox.ended.empty()


def test_closing_gives_back_what_was_not_settled_in_order(link: PikaLink, orders: str) -> None:
    sent = [message(orders) for _ in range(20)]
    for outgoing in sent:
        publish(link, outgoing)
    inbox = Inbox()
    subscription = consume(link, orders, inbox)
    arrivals = inbox.take(20)
    assert all(subscription.ack(a.tag) for a in arrivals[:5])
    run(subscription.close(soon()))
    assert not subscription.live and not subscription.ack(arrivals[9].tag)
    successor = Inbox()
    consume(link, orders, successor)
    again = [a.properties.message_id for a in successor.take(15)]
    assert again == [m.message_id for m in sent[5:]]
    assert inbox.ended.empty()


def test_a_deleted_queue_ends_its_consumer_with_code_0(link: PikaLink, orders: str) -> None:
    publish(link, message(orders))
    inbox = Inbox()
    subscription = consume(link, orders, inbox)
    [held] = inbox.take(1)
    run(link.delete_queue(orders, soon()))
    ended = inbox.ended.get(timeout=20)
    assert ended.code == 0 and orders in str(ended)
    assert not subscription.live and not subscription.ack(held.tag)
    run(subscription.close(soon()))
    assert inbox.ended.empty()


def test_a_closed_channel_ends_its_consumer_with_the_code(link: PikaLink, orders: str) -> None:
    publish(link, message(orders))
    inbox, other = Inbox(), Inbox()
    subscription, neighbour = consume(link, orders, inbox), consume(link, orders, other)
    [held] = inbox.take(1)
    # A tag that the broker never gave: nothing of ours writes such a frame.
    link._session.io.call(lambda: subscription._channel.write(_foreign_ack(subscription)))
    ended = inbox.ended.get(timeout=20)
    assert ended.code == 406
    assert not subscription.live and not subscription.ack(held.tag)
    [again] = other.take(1)
    assert again.redelivered and neighbour.live and neighbour.ack(again.tag)
    assert inbox.ended.empty() and other.ended.empty()


def _foreign_ack(subscription: PikaSubscription) -> bytes:
    return ack_frame(subscription._channel.number, 4711)


def test_consuming_from_a_missing_queue_is_not_found(link: PikaLink) -> None:
    inbox = Inbox()
    with pytest.raises(NotFound, match="consuming from queue 'missing'"):
        consume(link, "missing", inbox)
    assert inbox.ended.empty()


def test_an_exclusive_consumer_keeps_others_out(link: PikaLink, orders: str) -> None:
    request = SubscriptionRequest(orders, "one", 1, exclusive=True)
    run(link.subscribe(request, Inbox().events, soon()))
    with pytest.raises(AccessRefused, match=orders):
        consume(link, orders, Inbox())


def test_arguments_of_a_consumer_are_checked_before_the_wire(link: PikaLink, orders: str) -> None:
    request = SubscriptionRequest(orders, "one", 1, {"x-odd": float("nan")})
    with pytest.raises(ConfigurationError, match="x-odd"):
        run(link.subscribe(request, Inbox().events, soon()))
