"""Many forced reconnects leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from tests.chaos.conftest import Form
from tests.chaos.ledger import Ledger
from tests.chaos.load import Load
from tests.contract import threads
from tests.contract.waiting import until
from tests.support.proxy import Proxy
from tests.support.rabbitmq import RabbitMQ

Enter = Callable[[Ledger, str], None]

Figures = tuple[int, int, int]

#: What has not changed for so long stays; idle threads and replaced channels end in one; seconds.
_SETTLED = 3.0
#: What grows by less for each reconnect is the ledger and the allocator; bytes.
_LEEWAY, _EACH = 256 * 1024, 4 * 1024


@pytest.fixture
def traced() -> Iterator[Callable[[], int]]:
    """Tells the bytes that Python holds."""

    def held() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    logging.disable(logging.CRITICAL)  # the tests keep every record of it
    tracemalloc.start()
    yield held
    tracemalloc.stop()
    logging.disable(logging.NOTSET)


async def test_forced_reconnects(
    load: Load,
    form: Form,
    own_rabbitmq: RabbitMQ,
    proxy_to: Callable[[int], Proxy],
    traced: Callable[[], int],
    enter: Enter,
) -> None:
    reconnects = 15 if form.name == "short" else 240
    proxy = proxy_to(own_rabbitmq.port)
    await load.open(own_rabbitmq.url_of("/", proxy.port))
    await load.sent(1)  # opens the other connection
    await cut_often(load, proxy, 5)
    before = await at_rest(load, own_rabbitmq), traced()
    await cut_often(load, proxy, reconnects)
    after = await at_rest(load, own_rabbitmq), traced()
    await load.finish()
    enter(load.ledger, own_rabbitmq.version)
    print(f"\n{load.flavour.name}: {reconnects} reconnects, held {before[1]} then {after[1]} bytes")
    assert after[0] == before[0], ours()
    assert after[1] - before[1] < _LEEWAY + _EACH * reconnects


async def cut_often(load: Load, proxy: Proxy, times: int) -> None:
    """Cuts both connections again and again; each time both work again in five seconds."""
    for _ in range(times):
        before = await load.recoveries()
        proxy.cut()
        await load.recovers(before + 1)
        await until(lambda: load.consumer.running, "a consumer again", 5.0)
        await load.sent(1)
        await until(lambda: not load.ledger.outstanding, "a message handled", 5.0)


async def at_rest(load: Load, node: RabbitMQ) -> Figures:
    """What is there once all that was cut is gone: replaced channels, threads that ended."""
    seen, since = await figures(node), time.monotonic()
    while time.monotonic() < since + _SETTLED:
        now = await figures(node)
        if now != seen:
            seen, since = now, time.monotonic()
    return seen


async def figures(node: RabbitMQ) -> Figures:
    """Threads of ours, tasks, and the broker's channels."""
    return len(ours()), len(asyncio.all_tasks()), await channels(node)


def ours() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("acemq")]


async def channels(node: RabbitMQ) -> int:
    listed = await threads.run(lambda: node.ctl("list_channels", "name", "--silent"))
    return len(listed.splitlines())
