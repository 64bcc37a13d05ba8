"""The blocking transport against a real broker: what threads that use one connection notice."""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest

from acemq_amqp.address import Address, parse_address
from acemq_amqp.core.ports import (
    Arrival,
    Confirmed,
    LinkEvents,
    Outcome,
    Outgoing,
    Refused,
    SubscriptionEvents,
    SubscriptionRequest,
    Unknown,
    Unsent,
)
from acemq_amqp.errors import (
    AccessRefused,
    AuthenticationRefused,
    BrokerError,
    BrokerTimeout,
    CannotConnect,
    ConfigurationError,
    ConnectionLost,
    DeclarationMismatch,
    NotFound,
)
from acemq_amqp.fieldtable import HeaderTable
from acemq_amqp.properties import Properties
from acemq_amqp.topology import BindingDeclaration, ExchangeDeclaration, QueueDeclaration
from acemq_amqp.transports.pika import PikaTransport
from acemq_amqp.transports.pika.link import PikaLink
from acemq_amqp.transports.pika.subscription import PikaSubscription
from tests.support.eventually import eventually
from tests.support.proxy import Proxy
from tests.support.rabbitmq import RabbitMQ
from tests.support.stands import Stand

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a port's call as the blocking flavour does: it may not suspend."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    coroutine.close()
    raise AssertionError("a blocking port suspended")


def soon(seconds: float = 20.0) -> float:
    return time.monotonic() + seconds


@dataclass
class Seen:
    """What a link reported."""

    lost: queue.Queue[BrokerError] = field(default_factory=queue.Queue)
    blocked: queue.Queue[str] = field(default_factory=queue.Queue)
    unblocked: queue.Queue[bool] = field(default_factory=queue.Queue)

    @property
    def events(self) -> LinkEvents:
        return LinkEvents(self.lost.put, self.blocked.put, lambda: self.unblocked.put(True))


@dataclass
class Inbox:
    """What a subscription reported."""

    arrivals: queue.Queue[Arrival] = field(default_factory=queue.Queue)
    ended: queue.Queue[BrokerError] = field(default_factory=queue.Queue)

    @property
    def events(self) -> SubscriptionEvents:
        return SubscriptionEvents(self.arrivals.put, self.ended.put)

    def take(self, count: int) -> list[Arrival]:
        return [self.arrivals.get(timeout=20) for _ in range(count)]


def connect(address: Address, seen: Seen | None = None, name: str = "tests") -> PikaLink:
    events = (seen or Seen()).events
    return run(PikaTransport().connect(address, name=name, events=events, deadline=soon()))


def io_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.endswith("I/O")]


@pytest.fixture
def address(amqp_url: str) -> Address:
    return parse_address(amqp_url)


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def link(address: Address, seen: Seen) -> Iterator[PikaLink]:
    link = connect(address, seen)
    yield link
    run(link.close(soon()))
    assert io_threads() == []


@pytest.fixture
def orders(link: PikaLink, names: Callable[[str], str]) -> str:
    return declared(link, names("orders"))


@pytest.fixture
def own_address(own_rabbitmq: RabbitMQ) -> Address:
    """Of a broker that the test may alarm."""
    return parse_address(own_rabbitmq.url)


@pytest.fixture
def own_link(own_address: Address, seen: Seen) -> Iterator[PikaLink]:
    link = connect(own_address, seen)
    yield link
    run(link.close(soon()))
    assert io_threads() == []


def declared(link: PikaLink, name: str, **arguments: object) -> str:
    run(link.declare(QueueDeclaration(name, arguments=arguments), soon()))
    return name


def message(key: str, body: bytes = b"{}", exchange: str = "", id: str | None = None) -> Outgoing:
    id = id or uuid.uuid4().hex
    properties = Properties(message_id=id, delivery_mode=2, headers=HeaderTable.of({"n": 1.5}))
    return Outgoing(exchange, key, id, properties.encode(), body)


def publish(link: PikaLink, outgoing: Outgoing) -> Outcome:
    return run(link.submit(outgoing).outcome(soon()))


def consume(link: PikaLink, name: str, inbox: Inbox, prefetch: int = 100) -> PikaSubscription:
    request = SubscriptionRequest(name, f"ctag-{uuid.uuid4().hex[:8]}", prefetch)
    return run(link.subscribe(request, inbox.events, soon()))


def pulled(link: PikaLink, name: str) -> Arrival:
    arrival = eventually(lambda: run(link.pull(name, soon())), f"a message in {name}")
    assert arrival is not None
    return arrival


def depth(link: PikaLink, name: str) -> int:
    state = run(link.look_up_queue(name, soon()))
    assert state is not None
    return state.messages


# ---------------------------------------------------------------- publishing


def test_a_confirmed_message_is_in_the_queue_as_it_was_sent(link: PikaLink, orders: str) -> None:
    sent = message(orders, b"\x00\xff" * 200_000)
    assert publish(link, sent) == Confirmed()
    arrival = pulled(link, orders)
    assert (arrival.body, arrival.properties.message_id) == (sent.body, sent.message_id)
    assert arrival.properties.headers.get("n") == 1.5
    assert arrival.settling.ack(arrival.tag)


def test_an_empty_body_travels(link: PikaLink, orders: str) -> None:
    assert publish(link, message(orders, b"")) == Confirmed()
    assert pulled(link, orders).body == b""


def test_an_unroutable_message_is_told_apart_from_its_neighbours(
    link: PikaLink, orders: str
) -> None:
    pendings = [link.submit(message(key)) for key in (orders, "nobody", orders)]
    outcomes = [run(pending.outcome(soon())) for pending in pendings]
    assert [isinstance(o, Confirmed) and o.routed for o in outcomes] == [True, False, True]
    assert "NO_ROUTE" in outcomes[1].reason  # type: ignore[union-attr]


def test_a_missing_exchange_is_the_fault_of_its_message_alone(link: PikaLink, orders: str) -> None:
    neighbours = [link.submit(message(orders)) for _ in range(3)]
    culprit = link.submit(message("k", exchange="missing"))
    later = [link.submit(message(orders)) for _ in range(3)]
    refused = run(culprit.outcome(soon()))
    assert isinstance(refused, Refused) and refused.code == 404 and "missing" in refused.reason
    for pending in (*neighbours, *later):
        assert isinstance(run(pending.outcome(soon())), Confirmed | Unknown)
    assert publish(link, message(orders)) == Confirmed()


def test_messages_with_one_id_get_each_their_own_outcome(link: PikaLink, orders: str) -> None:
    keys = [orders, "nobody", orders, "nobody", "nobody", orders]
    pendings = [link.submit(message(key, id="same")) for key in keys]
    routed = [run(p.outcome(soon())).routed for p in pendings]  # type: ignore[union-attr]
    assert routed == [key == orders for key in keys]
    assert depth(link, orders) == 3


def test_a_full_queue_nacks(link: PikaLink) -> None:
    name = declared(link, "full", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    outcomes = [publish(link, message(name)) for _ in range(3)]
    assert outcomes[0] == Confirmed()
    assert isinstance(outcomes[2], Refused) and outcomes[2].stored == "perhaps"


def test_a_name_that_the_wire_cannot_carry_is_refused_at_once(link: PikaLink) -> None:
    with pytest.raises(ConfigurationError, match="255"):
        link.submit(message("k" * 256))


def test_outcomes_are_told_to_callbacks_too(link: PikaLink, orders: str) -> None:
    told: queue.Queue[Outcome] = queue.Queue()
    pending = link.submit(message(orders), told.put)
    assert told.get(timeout=20) == run(pending.outcome(soon())) == Confirmed()


def test_many_threads_publish_and_settle_over_one_connection(link: PikaLink, orders: str) -> None:
    inbox, each, threads = Inbox(), 200, 8
    subscription = consume(link, orders, inbox)
    outcomes: list[Outcome] = []
    settled: list[bool] = []

    def work() -> None:
        for _ in range(each):
            outcomes.append(publish(link, message(orders)))
            arrival = inbox.arrivals.get(timeout=20)
            settled.append(subscription.ack(arrival.tag))

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert outcomes == [Confirmed()] * (each * threads)
    assert settled == [True] * (each * threads)
    run(subscription.close(soon()))
    assert depth(link, orders) == 0


# ---------------------------------------------------------------- consuming


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


def test_the_prefetch_bounds_what_is_unsettled_and_reopening_changes_it(
    link: PikaLink, orders: str
) -> None:
    for _ in range(10):
        publish(link, message(orders))
    inbox = Inbox()
    subscription = consume(link, orders, inbox, prefetch=1)
    [held] = inbox.take(1)
    assert depth(link, orders) == 9
    run(subscription.reopen(5, soon()))
    more = inbox.take(5)
    assert depth(link, orders) == 4
    assert subscription.ack(held.tag) and all(subscription.ack(a.tag) for a in more)
    assert all(subscription.ack(a.tag) for a in inbox.take(4))


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
    from acemq_amqp.transports.wire.frames import ack_frame

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


# ---------------------------------------------------------------- pulling


def test_pulling(link: PikaLink, orders: str) -> None:
    assert run(link.pull(orders, soon())) is None
    publish(link, message(orders, b"1"))
    publish(link, message(orders, b"2"))
    first, second = pulled(link, orders), pulled(link, orders)
    assert (first.body, second.body) == (b"1", b"2")
    assert first.settling.ack(first.tag) and second.settling.requeue(second.tag)
    again = pulled(link, orders)
    assert again.body == b"2" and again.redelivered and again.settling.ack(again.tag)
    assert not again.settling.ack(again.tag)


def test_pulling_from_a_missing_queue_harms_no_other_pull(link: PikaLink, orders: str) -> None:
    publish(link, message(orders))
    held = pulled(link, orders)
    with pytest.raises(NotFound, match="missing"):
        run(link.pull("missing", soon()))
    assert held.settling.live and held.settling.ack(held.tag)


# ---------------------------------------------------------------- declaring and looking up


def test_declaring_binding_and_looking_up(link: PikaLink, orders: str) -> None:
    top, sub = f"top-{orders}", f"sub-{orders}"
    for step in (
        ExchangeDeclaration(top, "topic"),
        ExchangeDeclaration(sub, "headers", arguments={"alternate-exchange": top}),
        BindingDeclaration(sub, top, "a.*", to_exchange=True),
        BindingDeclaration(orders, sub, arguments={"x-match": "all", "n": 1.5}),
    ):
        run(link.declare(step, soon()))
    assert run(link.look_up_exchange(top, soon()))
    assert run(link.look_up_exchange("", soon()))
    assert not run(link.look_up_exchange("missing", soon()))
    assert run(link.look_up_queue("missing", soon())) is None
    assert publish(link, message("a.b", exchange=top)) == Confirmed()
    assert depth(link, orders) == 1
    assert run(link.purge_queue(orders, soon())) == 1
    publish(link, message(orders))
    assert run(link.delete_queue(orders, soon())) == 1


def test_a_mismatch_names_the_argument_and_both_values(link: PikaLink, orders: str) -> None:
    with pytest.raises(DeclarationMismatch) as raised:
        run(link.declare(QueueDeclaration(orders, arguments={"x-max-length": 5}), soon()))
    assert raised.value.code == 406
    text = str(raised.value)
    assert text.startswith("acemq: ") and orders in text and "x-max-length" in text and "5" in text
    assert run(link.look_up_queue(orders, soon())) is not None


def test_a_refused_call_harms_nobody_else(link: PikaLink, orders: str) -> None:
    inbox = Inbox()
    subscription = consume(link, orders, inbox)
    for _ in range(5):
        assert not run(link.look_up_exchange("missing", soon()))
        assert publish(link, message(orders)) == Confirmed()
    assert all(subscription.ack(a.tag) for a in inbox.take(5))


def test_an_exclusive_queue_of_another_connection_is_refused(
    link: PikaLink, address: Address
) -> None:
    other = connect(address)
    name = "mine"
    run(other.declare(QueueDeclaration(name, durable=False, exclusive=True), soon()))
    with pytest.raises(AccessRefused, match=name):
        run(link.look_up_queue(name, soon()))
    run(other.close(soon()))


def test_calls_of_many_threads_are_answered_each_with_its_own(link: PikaLink, orders: str) -> None:
    wrong: list[str] = []

    def ask(index: int) -> None:
        for turn in range(20):
            name = orders if (index + turn) % 2 else "missing"
            found = run(link.look_up_queue(name, soon()))
            if (found is None) != (name == "missing"):
                wrong.append(name)

    workers = [threading.Thread(target=ask, args=(index,)) for index in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


# ---------------------------------------------------------------- connecting


def test_the_broker_tells_who_it_is(link: PikaLink, rabbitmq: Stand, address: Address) -> None:
    assert link.broker.product == "RabbitMQ"
    assert ".".join(map(str, link.broker.version)) == rabbitmq.version
    assert link.broker.login == address.username


def test_the_broker_shows_the_name(own_rabbitmq: RabbitMQ, own_address: Address) -> None:
    link = connect(own_address, name="billing")
    assert "billing" in str(own_rabbitmq.list_connections("client_properties"))
    run(link.close(soon()))


def test_a_wrong_password_is_final_and_stays_secret(address: Address) -> None:
    seen = Seen()
    with pytest.raises(AuthenticationRefused, match="guest") as raised:
        connect(replace(address, password="s3cret"), seen)
    assert seen.lost.empty() and io_threads() == []
    assert "s3cret" not in f"{raised.value}{raised.value.__cause__!r}"
    assert raised.value.code == 403


def test_a_missing_vhost_is_final(address: Address) -> None:
    with pytest.raises(AuthenticationRefused, match="nowhere") as raised:
        connect(replace(address, vhost="nowhere"))
    assert raised.value.code == 530


def test_any_characters_may_stand_in_a_vhost(own_rabbitmq: RabbitMQ, own_address: Address) -> None:
    own_rabbitmq.add_vhost("a/b c%2F?#")
    run(connect(replace(own_address, vhost="a/b c%2F?#")).close(soon()))


def test_an_unknown_host_and_a_closed_port_cannot_be_connected_to(address: Address) -> None:
    with pytest.raises(CannotConnect, match=r"no-such-host\.invalid") as unknown:
        connect(replace(address, host="no-such-host.invalid"))
    with pytest.raises(CannotConnect, match="nothing listens there") as refused:
        connect(replace(address, port=1))
    for raised in (unknown, refused):
        assert not isinstance(raised.value, AuthenticationRefused)


def test_a_silent_peer_is_given_up_at_the_deadline(address: Address) -> None:
    with Proxy(address.port) as proxy:
        proxy.blackhole()
        silent = replace(address, port=proxy.port)
        with pytest.raises(CannotConnect, match="no answer in the time allowed"):
            run(
                PikaTransport().connect(
                    silent, name="tests", events=Seen().events, deadline=soon(0.3)
                )
            )
    assert io_threads() == []


# ---------------------------------------------------------------- alarms


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


# ---------------------------------------------------------------- ends


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


def test_an_aborted_link_is_gone_at_once(address: Address) -> None:
    seen = Seen()
    link = connect(address, seen)
    link.abort()
    eventually(lambda: link._session.lost, "the end")
    assert isinstance(publish(link, message("q")), Unsent)
    eventually(lambda: not io_threads(), "the end of the thread")
    assert seen.lost.empty()


def test_an_overdue_call_times_out_and_later_ones_are_answered(
    address: Address, orders: str
) -> None:
    with Proxy(address.port) as proxy:
        slow = connect(replace(address, port=proxy.port))
        assert run(slow.look_up_queue(orders, soon())) is not None
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
        publish(slow, message(orders))
        arrival = pulled(slow, orders)
        assert arrival.settling.ack(arrival.tag)
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
