"""Logins that may do no more than their work, and what docs/operations.md tells to give them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from acemq_amqp import AccessRefused, PublishRefused
from acemq_amqp.blocking import Message, Topology, connect, fixed_retry, park, reject
from tests.acceptance.programs import ROOT
from tests.contract.threads import run
from tests.support.eventually import eventually
from tests.support.rabbitmq import RabbitMQ

pytestmark = pytest.mark.server

PAGE = (ROOT / "docs" / "operations.md").read_text()
OBJECTS = r"^(orders(\..*)?|acemq\.dlx|acemq\.retry)$"
WRITTEN = r"^(orders(\..*)?|acemq\.dlx|acemq\.retry|amq\.default)$"


async def test_the_permissions_of_the_page_are_enough(own_rabbitmq: RabbitMQ) -> None:
    assert f"`{OBJECTS}`" in PAGE and f"`{WRITTEN}`" in PAGE
    with allowed(own_rabbitmq, configure=OBJECTS, write=WRITTEN, read=OBJECTS) as url:
        await run(lambda: main_job(url))


async def test_who_may_only_write_to_an_exchange_publishes_to_it(own_rabbitmq: RabbitMQ) -> None:
    """RabbitMQ 4.3 lets nobody look up an exchange that he may do nothing with."""
    shop = Topology().exchange("shop").queue("sold").binding("sold", "shop", "#")

    def work(url: str) -> None:
        with connect(own_rabbitmq.url) as owner, connect(url, fail_fast=True) as mq:
            owner.declare(shop)
            assert mq.publisher("shop").send("one", routing_key="any").routed
            mq.publisher("shop").send_many(["two", "three"], routing_key="any")
            assert owner.message_count("sold") == 3
            assert mq.health().ok
            with pytest.raises(PublishRefused):
                mq.publisher("amq.topic").send("no", routing_key="any")
            mq.publisher("shop").send("four", routing_key="any")
            owner.delete_queue("sold")

    with allowed(own_rabbitmq, configure="^$", write="^shop$", read="^$") as url:
        await run(lambda: work(url))


async def test_who_may_only_read_a_queue_consumes_from_it(own_rabbitmq: RabbitMQ) -> None:
    def work(url: str) -> None:
        handled = threading.Event()
        with connect(own_rabbitmq.url) as owner, connect(url, fail_fast=True) as mq:
            owner.declare(Topology().queue("sold"))
            owner.publisher(routing_key="sold").send("one")
            mq.consume("sold", lambda message: handled.set(), declare=False)
            assert handled.wait(60)
            assert mq.health().ok
            mq.close()
            owner.delete_queue("sold")

    with allowed(own_rabbitmq, configure="^$", write="^$", read="^sold$") as url:
        await run(lambda: work(url))


@contextmanager
def allowed(broker: RabbitMQ, *, configure: str, write: str, read: str) -> Iterator[str]:
    """The address of a login that may do that and no more."""
    may = (f'<<"{each}">>'.replace("\\", "\\\\") for each in (configure, write, read))
    user, by = '<<"may">>', '<<"tests">>'
    broker.eval(
        f"rabbit_auth_backend_internal:add_user({user}, {user}, {by}), "
        f'rabbit_auth_backend_internal:set_permissions({user}, <<"/">>, {", ".join(may)}, {by})'
    )
    try:
        yield broker.url.replace("guest:guest", "may:may")
    finally:
        broker.ctl("delete_user", "may")


def main_job(url: str) -> None:
    """Declares, publishes, tries again here and at the broker, rejects, parks, is healthy."""
    tried: list[int] = []
    done = threading.Event()

    def handle(message: Message) -> object:
        if message.payload == "retried":
            tried.append(message.envelope.attempt)
            raise TimeoutError("the bank")
        if message.payload == "last":
            done.set()
        return {"rejected": reject("no"), "parked": park("no")}.get(message.payload)

    policy = fixed_retry(2, 0.2).wait_in_broker_from(0.2)
    with connect(url, retry=policy, fail_fast=True) as mq:
        mq.declare(Topology().queue("orders", dead_letter=True, retry=policy))
        mq.consume("orders", handle)
        mq.publisher(routing_key="orders").send_many(["retried", "rejected", "parked", "last"])
        assert done.wait(60)
        assert mq.health().ok
        depths = [("orders.dlq", 2), ("orders.parked", 1)]
        eventually(lambda: all(mq.message_count(at) == n for at, n in depths), "what is set aside")
        assert tried == [1, 2]
        with pytest.raises(AccessRefused):
            mq.declare(Topology().queue("others"))
        for queue in ("orders", "orders.dlq", "orders.parked", "orders.retry.200ms"):
            mq.delete_queue(queue)
