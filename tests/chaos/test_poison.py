"""A message that ends its process, among fifty; the process is started again each time."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from acemq_amqp import Topology, dead_letter_queue, parked_queue
from acemq_amqp.core.connection import Connection
from tests.chaos.conftest import Form
from tests.chaos.ledger import Ledger
from tests.chaos.load import DEADLINE
from tests.chaos.poison_worker import POISON
from tests.contract.flavours import Flavour
from tests.contract.waiting import until
from tests.support.rabbitmq import RabbitMQ

Enter = Callable[[Ledger, str], None]

_PAUSE = 0.02


class Workers:
    """Workers side by side, each started again whenever it died."""

    def __init__(
        self,
        flavour: Flavour,
        url: str,
        queue: str,
        handled: Path,
        most: int,
        more: Callable[[], Awaitable[None]],
    ) -> None:
        self._refill = more
        self._command = ("-m", "tests.chaos.poison_worker", flavour.name, url, queue)
        self._more = (str(handled), str(most))
        self._handled = handled
        self._over = False
        self.deaths = 0

    def handled(self) -> list[int]:
        if not self._handled.exists():
            return []
        return [int(line) for line in self._handled.read_text().splitlines()]

    async def work_until(self, done: Callable[[], Awaitable[bool]], number: int) -> None:
        """Has so many workers work until ``done``; those that live end in order."""
        working = asyncio.gather(*(self._work() for _ in range(number)))
        try:
            await until(lambda: working.done() or done(), "the end of the work", DEADLINE)
        finally:
            self._over = True
            await working

    async def _work(self) -> None:
        while not self._over:
            worker = await asyncio.create_subprocess_exec(
                sys.executable, *self._command, *self._more, cwd=Path(__file__).parents[2]
            )
            while worker.returncode is None and not self._over:
                await asyncio.sleep(_PAUSE)
            if worker.returncode is None:
                await self._end(worker)
            else:
                assert worker.returncode == 1, "a worker ended for another reason than the poison"
                self.deaths += 1
                await self._refill()

    async def _end(self, worker: asyncio.subprocess.Process) -> None:
        worker.send_signal(signal.SIGTERM)
        code = await worker.wait()
        # A signal that comes before run() ends the process on the spot.
        assert code in (0, -signal.SIGTERM), "a worker did not end in order"


@pytest.mark.parametrize("kind", ["quorum", "classic"])
@pytest.mark.parametrize("workers", [1, 2], ids=["one", "two"])
async def test_a_message_that_ends_its_process(
    flavour: Flavour,
    form: Form,
    kind: str,
    workers: int,
    own_rabbitmq: RabbitMQ,
    names: Callable[[str], str],
    tmp_path: Path,
    enter: Enter,
) -> None:
    most = 3 if form.name == "short" and workers == 1 else 10
    queue, ledger = names("orders"), Ledger()
    async with await flavour.connect(own_rabbitmq.url) as mq:
        await mq.declare(Topology().queue(queue, quorum=kind == "quorum"))
        await publish(mq, queue, ledger, 50)

        async def refill() -> None:
            """So that what was put back comes among fresh messages to an open consumer."""
            await publish(mq, queue, ledger, 50)

        crew = Workers(flavour, own_rabbitmq.url, queue, tmp_path / "handled", most, refill)

        async def done() -> bool:
            aside = parked_queue(queue)
            if not await mq.queue_exists(aside) or not await mq.message_count(aside):
                return False
            rest = len(ledger.published) - len(set(crew.handled()))
            return rest <= await mq.message_count(aside) and not await mq.message_count(queue)

        await crew.work_until(done, workers)
        for number in crew.handled():
            ledger.handle(number)
        await check_aside(mq, queue, ledger)
    ledger.check(faulty=True)
    if workers == 1:
        assert crew.deaths == most
    enter(ledger, own_rabbitmq.version)


async def check_aside(mq: Connection, queue: str, ledger: Ledger) -> None:
    """The poison is parked with its reason, and nothing else is anywhere."""
    while parked := await mq.pull(parked_queue(queue)):
        ledger.parked.add(int(parked.body))
        reason = parked.headers["x-acemq-error"]
        await parked.ack()
    assert ledger.parked == {POISON}
    assert "delivered" in reason and "never answered" in reason
    assert await mq.pull(dead_letter_queue(queue)) is None, "a neighbour was dead-lettered"
    assert await mq.message_count(queue) == 0


async def publish(mq: Connection, queue: str, ledger: Ledger, messages: int) -> None:
    numbers = [ledger.next_id() for _ in range(messages)]
    await mq.publisher("", queue).send_many(numbers)
    for number in numbers:
        ledger.confirm(number)
