"""Calls that the broker answers: pulling, declaring, looking up. A refusal harms nobody else."""

from __future__ import annotations

import threading

import pytest

from acemq_amqp.address import Address
from acemq_amqp.core.ports import (
    Confirmed,
)
from acemq_amqp.errors import (
    AccessRefused,
    DeclarationMismatch,
    NotFound,
)
from acemq_amqp.topology import BindingDeclaration, ExchangeDeclaration, QueueDeclaration
from acemq_amqp.transports.pika.link import PikaLink
from tests.transports.pika.stand import (
    Inbox,
    connect,
    consume,
    depth,
    message,
    publish,
    pulled,
    run,
    soon,
)

pytestmark = pytest.mark.server


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
