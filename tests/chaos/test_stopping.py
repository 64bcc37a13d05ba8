"""A worker is asked to stop while it works, and one works longer than a heartbeat."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from acemq_amqp import Message, Topology
from acemq_amqp.core.connection import Connection
from tests.chaos.conftest import Form
from tests.chaos.ledger import Ledger
from tests.chaos.load import Load
from tests.contract import threads
from tests.contract.flavours import FLAVOURS, Flavour
from tests.contract.waiting import until
from tests.support.rabbitmq import RabbitMQ

Enter = Callable[[Ledger, str], None]


class Worker:
    """One process of ``tests.chaos.worker``."""

    def __init__(self, flavour: Flavour, url: str, queue: str, notes: Path) -> None:
        self._arguments = (flavour.name, url, queue, str(notes))
        self._notes = notes

    async def start(self, seconds: float) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.chaos.worker",
            *self._arguments,
            str(seconds),
            cwd=Path(__file__).parents[2],
        )

    def noted(self, word: str) -> list[int]:
        if not self._notes.exists():
            return []
        lines = [line.split() for line in self._notes.read_text().splitlines()]
        return [int(line[1]) for line in lines if line[0] == word]


async def test_a_worker_that_is_asked_to_stop(
    flavour: Flavour,
    own_rabbitmq: RabbitMQ,
    names: Callable[[str], str],
    tmp_path: Path,
    enter: Enter,
) -> None:
    """It finishes what it handles, gives back the rest, and ends well."""
    queue, ledger = names("orders"), Ledger()
    async with await flavour.connect(own_rabbitmq.url) as mq:
        await mq.declare(Topology().queue(queue))
        numbers = [ledger.next_id() for _ in range(50)]
        await mq.publisher("", queue).send_many(numbers)
        ledger.confirmed.update(numbers)
        crew = Worker(flavour, own_rabbitmq.url, queue, tmp_path / "notes")
        first = await crew.start(1.0)
        await until(lambda: len(crew.noted("began")) >= 6, "a worker at work")
        first.send_signal(signal.SIGTERM)
        assert await ended(first) == 0
        assert sorted(crew.noted("ended")) == sorted(crew.noted("began"))
        assert await mq.message_count(queue) == 50 - len(crew.noted("ended"))
        second = await crew.start(0.0)
        await until(lambda: len(crew.noted("ended")) >= 50, "the rest handled")
        second.send_signal(signal.SIGTERM)
        assert await ended(second) == 0
        ledger.handled.update(crew.noted("ended"))
        assert await mq.message_count(queue) == 0
    ledger.check(faulty=False)
    enter(ledger, own_rabbitmq.version)


async def test_a_second_signal_does_not_wait(
    flavour: Flavour, own_rabbitmq: RabbitMQ, names: Callable[[str], str], tmp_path: Path
) -> None:
    queue = names("orders")
    async with await flavour.connect(own_rabbitmq.url) as mq:
        await mq.declare(Topology().queue(queue))
        await mq.publisher("", queue).send_many([1, 2])
        crew = Worker(flavour, own_rabbitmq.url, queue, tmp_path / "notes")
        worker = await crew.start(1000.0)
        await until(lambda: len(crew.noted("began")) == 2, "a worker at work")
        worker.send_signal(signal.SIGTERM)
        await until(lambda: abandoned(own_rabbitmq, queue), "the stop to begin")
        worker.send_signal(signal.SIGTERM)
        await ended(worker)
        await until(lambda: holds(mq, queue, 2), "the messages back in the queue")


async def ended(worker: asyncio.subprocess.Process) -> int:
    """Waits for a process to end, and sees to it that it does."""
    try:
        return await asyncio.wait_for(worker.wait(), 30.0)
    except TimeoutError:
        worker.kill()
        raise AssertionError("a worker that was asked to stop did not") from None


async def abandoned(node: RabbitMQ, queue: str) -> bool:
    """Whether nobody consumes from it any more."""
    listed = await threads.run(node.list_consumers)
    return all(each["queue_name"] != queue for each in listed)


async def holds(mq: Connection, queue: str, count: int) -> bool:
    return await mq.message_count(queue) == count


@pytest.mark.parametrize("flavour", [FLAVOURS["blocking"]], ids=["blocking"])
async def test_a_handler_that_outlasts_the_heartbeat(
    load: Load, form: Form, own_rabbitmq: RabbitMQ, enter: Enter
) -> None:
    """Its first delivery is acknowledged, on the connection that it came by."""
    heartbeat, seconds = (1, 4.0) if form.name == "short" else (4, 15.0)

    def sleep(message: Message) -> None:
        if message.payload == 0:
            time.sleep(seconds)

    await load.open(f"{own_rabbitmq.url}?heartbeat={heartbeat}", answer=sleep)
    await load.sent(5)
    await load.finish(faulty=False)
    assert load.ledger.handled[0] == 1
    enter(load.ledger, own_rabbitmq.version)
