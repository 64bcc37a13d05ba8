"""Publishing over one connection: each message's own outcome, whatever its neighbours do."""

from __future__ import annotations

import queue
import threading

import pytest

from acemq_amqp.core.ports import (
    Confirmed,
    Outcome,
    Refused,
    Unknown,
)
from acemq_amqp.errors import (
    ConfigurationError,
)
from acemq_amqp.transports.pika.link import PikaLink
from tests.transports.pika.stand import (
    Inbox,
    consume,
    declared,
    depth,
    message,
    publish,
    pulled,
    run,
    soon,
)

pytestmark = pytest.mark.server


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
    assert "NO_ROUTE" in outcomes[1].reason


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
