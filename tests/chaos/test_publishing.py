"""Many publishers at once, and more messages than the network takes."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from acemq_amqp import PublishRefused, Topology
from tests.chaos.conftest import LONG, Form
from tests.chaos.ledger import Ledger
from tests.chaos.load import DEADLINE, Load
from tests.contract import threads
from tests.contract.flavours import FLAVOURS, Flavour
from tests.contract.waiting import until
from tests.support.proxy import Proxy
from tests.support.rabbitmq import RabbitMQ

Enter = Callable[[Ledger, str], None]

_MIB = 1024 * 1024
_SENDERS = 20


@pytest.mark.parametrize("flavour", [FLAVOURS["blocking"]], ids=["blocking"])
async def test_twenty_threads_on_one_connection(
    load: Load, form: Form, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    """All confirmed, none twice."""
    each = 100 * form.scale
    await load.open(own_rabbitmq.url, prefetch=200)
    publisher = cast(Any, load.mq)._inner.publisher("", load.queue)
    ledger = load.ledger

    def send() -> None:
        for _ in range(each):
            number = ledger.next_id()
            publisher.send(number)
            ledger.confirm(number)

    senders = [threading.Thread(target=send) for _ in range(_SENDERS)]
    for sender in senders:
        sender.start()
    await until(lambda: len(ledger.confirmed) == each * _SENDERS, "all confirmed", 4 * DEADLINE)
    await load.finish(faulty=False)
    enter(ledger, own_rabbitmq.version)


@pytest.mark.parametrize("form", [LONG], ids=["long"])
@pytest.mark.chaos  # its short form is test_broker's kill at a thousand messages a second
async def test_eight_publishers_across_a_kill(
    load: Load, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    node = own_rabbitmq
    await load.open(node.url, quorum=False)
    load.start(senders=8, rest=0.0005)
    for _ in range(5):
        await load.flows(200)
        await threads.run(node.persist)
        await threads.run(node.kill)
        await load.sends_hang()
        await threads.run(node.boot)
        await load.flows(200)
    await load.finish()
    assert not load.ledger.refused
    assert not load.ledger.unknown
    enter(load.ledger, node.version)


async def test_more_messages_than_a_slow_network_takes(
    flavour: Flavour,
    form: Form,
    own_rabbitmq: RabbitMQ,
    proxy_to: Callable[[int], Proxy],
    names: Callable[[str], str],
) -> None:
    """The publisher waits: what it holds in memory is bounded, however many messages there are."""
    messages, rate = (20_000, 2 * _MIB) if form.name == "short" else (1_000_000, 8 * _MIB)
    proxy, queue = proxy_to(own_rabbitmq.port), names("full")
    proxy.throttle(rate)
    async with await flavour.connect(own_rabbitmq.url) as mq:
        bounded = {"x-max-length": 1000}
        await mq.declare(Topology().queue(queue, quorum=False, args=bounded))
        url = own_rabbitmq.url_of("/", proxy.port)
        confirmed, most, peak = await flood(flavour.name, url, queue, messages)
    print(
        f"\n{flavour.name}: {messages} messages of 100 bytes through {rate // _MIB} MiB/s: "
        f"at most {most} outstanding, peak {peak / 1024:.0f} MiB"
    )
    assert confirmed == messages
    assert most <= 1000
    assert peak < 150 * 1024


async def flood(*arguments: Any) -> list[int]:
    """Runs the program of that name, and gives the numbers that it prints."""
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.chaos.flood",
        *map(str, arguments),
        cwd=Path(__file__).parents[2],
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await program.communicate()
    assert program.returncode == 0
    return [int(number) for number in printed.split()]


async def test_a_queue_that_refuses_for_a_while(load: Load, own_rabbitmq: RabbitMQ) -> None:
    """After nacks the publisher goes on by a fresh channel, and nobody else notices."""
    await load.open(own_rabbitmq.url)
    full = f"{load.queue}.full"
    limited = {"x-max-length": 1, "x-overflow": "reject-publish"}
    await load.mq.declare(Topology().queue(full, quorum=False, args=limited))
    load.start()
    await load.flows()
    publisher = load.mq.publisher("", full)
    refusals: list[PublishRefused] = []

    async def refused(wanted: int) -> bool:
        try:
            await publisher.send("no room")
        except PublishRefused as refusal:
            refusals.append(refusal)
        return len(refusals) >= wanted

    for number in range(3):
        await until(lambda wanted=10 * (number + 1): refused(wanted), "nacks")  # type: ignore[misc]
        await load.flows(300)  # long enough for a channel to be left again
    assert all(refusal.stored == "perhaps" for refusal in refusals)
    await load.mq.purge(full)
    assert (await publisher.send("room")).routed
    assert await load.recoveries() == 0
    await load.finish(faulty=False)
    assert load.ledger.confirmed == load.ledger.published
