"""A login with no more than what docs/operations.md tells to give it does all of the main job."""

from __future__ import annotations

import threading

import pytest

from acemq_amqp import AccessRefused
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
    words = ("may", "may", "tests")
    user, password, by = (f'<<"{word}">>' for word in words)
    objects, written = (f'<<"{each}">>'.replace("\\", "\\\\") for each in (OBJECTS, WRITTEN))
    own_rabbitmq.eval(
        f"rabbit_auth_backend_internal:add_user({user}, {password}, {by}), "
        f'rabbit_auth_backend_internal:set_permissions({user}, <<"/">>, {objects}, {written}, '
        f"{objects}, {by})"
    )
    try:
        await run(lambda: main_job(own_rabbitmq.url.replace("guest:guest", "may:may")))
    finally:
        own_rabbitmq.ctl("delete_user", "may")


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
