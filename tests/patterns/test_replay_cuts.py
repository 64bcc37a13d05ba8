"""Replay over a connection that is cut, and in a process that is killed: none is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from acemq_amqp import Message
from acemq_amqp.address import parse_address
from acemq_amqp.patterns import ReplayStopped
from tests.acceptance.programs import ROOT, surroundings
from tests.contract.api import Api
from tests.contract.stands import RabbitStand
from tests.contract.waiting import until
from tests.patterns.replays import dead_letters, replayed
from tests.support.proxy import Proxy

MANY = [str(number).encode() for number in range(1, 151)]
LETTERS = {f"m-{number}" for number in range(1, 151)}

pytestmark = pytest.mark.server
on_rabbitmq = pytest.mark.parametrize("stand", ["rabbitmq"], indirect=True)


async def all_turn_up(mq: Any, *queues: str) -> list[list[str]]:
    """Takes all that is in queues, until each message was seen: the broker first has to notice
    that who held some has gone."""
    found: list[list[str]] = [[] for _ in queues]

    async def taken() -> bool:
        for queue, ids in zip(queues, found, strict=True):
            while (delivery := await mq.pull(queue)) is not None:
                ids.append(delivery.headers["x-acemq-id"])
                await delivery.ack()
        return {each for ids in found for each in ids} == LETTERS

    await until(taken, "every message")
    return found


@on_rabbitmq
@pytest.mark.parametrize("when", [b"50", b"100"], ids=["while it takes", "before it sends"])
async def test_a_connection_that_is_cut_loses_none(
    api: Api, proxy_to: Callable[[int], Proxy], when: bytes
) -> None:
    stand = api.stand
    assert isinstance(stand, RabbitStand)
    look = await api.connect()
    queue = await dead_letters(api, look, MANY)
    proxy = proxy_to(parse_address(stand.url).port)
    stand.url = stand.url.replace(f":{parse_address(stand.url).port}/", f":{proxy.port}/")
    mq = await api.connect()
    cuts: list[bytes] = []

    def cutting(message: Message) -> bool:
        if message.payload == when and not cuts:
            cuts.append(when)
            proxy.cut()
        return True

    try:
        result = await replayed(api, mq, f"{queue}.dlq", only=cutting)
    except ReplayStopped as stopped:  # the one or the other, as the loss is noticed
        result = stopped.result
    await mq.close()
    back, left = await all_turn_up(look, queue, f"{queue}.dlq")
    assert cuts and result.replayed <= len(back)
    assert len(back) + len(left) - len(LETTERS) <= result.perhaps_twice


KILLED = """
import os, sys
from acemq_amqp.blocking import connect
from acemq_amqp.blocking.patterns import replay
from acemq_amqp.core.pulling import Delivery

acked = Delivery.ack
count = 0

async def ack(self):
    global count
    count += 1
    if count == 120:
        os.kill(os.getpid(), 9)  # confirmed there, and not taken off here
    return await acked(self)

Delivery.ack = ack
with connect(sys.argv[1]) as mq:
    replay(mq, sys.argv[2])
"""


@on_rabbitmq
@pytest.mark.parametrize("flavour", ["async"], indirect=True)
async def test_a_process_that_is_killed_loses_none(api: Api) -> None:
    mq = await api.connect()
    queue = await dead_letters(api, mq, MANY)
    command = [sys.executable, "-c", KILLED, api.stand.url, f"{queue}.dlq"]
    ended = subprocess.run(command, env=surroundings(None), cwd=ROOT, timeout=60, check=False)
    assert ended.returncode == -9
    back, left = await all_turn_up(mq, queue, f"{queue}.dlq")
    assert len(back) >= 120
    assert len(left) >= 30
