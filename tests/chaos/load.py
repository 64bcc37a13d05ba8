"""Load: publishers and a consumer of the toolkit on one queue, both writing the same ledger.

It is on before the fault and goes on through it, in either flavour. ``flows`` shows that messages
published from now on come through; ``finish`` stops the publishers, waits for what was confirmed,
and adds up.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from acemq_amqp import (
    Consumer,
    HealthReport,
    Message,
    PublishRefused,
    PublishUnknown,
    Topology,
    dead_letter_queue,
    parked_queue,
)
from acemq_amqp.core.connection import Connection
from tests.chaos.ledger import Ledger
from tests.contract import threads
from tests.contract.flavours import Flavour
from tests.contract.waiting import until

#: What takes longer than this hangs; seconds.
DEADLINE = 90.0
#: Publishers at once, and how long each rests between two sends: some hundred messages a second.
_SENDERS, _REST = 4, 0.01
#: So many messages may wait for the consumer; publishers further ahead rest longer, or on a
#: busy machine new messages would wait for minutes behind old ones, whatever the fault.
_AHEAD, _LONG_REST = 1000, 0.1

Answer = Callable[[Message], Any]


class Load:
    """Publishers and one consumer on ``queue``."""

    def __init__(self, flavour: Flavour, queue: str) -> None:
        self.flavour = flavour
        self.queue = queue
        self.ledger = Ledger()
        self.mq: Connection
        self.consumer: Consumer
        self._answer: Answer = lambda message: None
        self._sending: list[asyncio.Task[None]] = []
        self._stopping = threading.Event()

    async def open(
        self,
        url: Any,
        *,
        quorum: bool | None = None,
        timeout: float = DEADLINE,
        answer: Answer | None = None,
        declares: bool = True,
        consumes: bool = True,
        **options: Any,
    ) -> None:
        """Connects, declares the queue, and consumes from it.

        :param answer: what the handler returns for a message; None accepts it
        """
        self._answer = answer or self._answer
        self.mq = await self.flavour.connect(url, timeout=timeout, **options)
        if declares:
            await self.mq.declare(Topology().queue(self.queue, quorum=quorum))
        if consumes:
            await self.consume()

    async def consume(self, **options: Any) -> None:
        """Consumes from the queue, with the options of ``Connection.consume``."""
        self.consumer = await self.mq.consume(self.queue, self._handle, **options)

    def _handle(self, message: Message) -> Any:
        answer = self._answer(message)
        if answer is None:
            self.ledger.handle(message.payload)
        return answer

    # ------------------------------------------------------------ publishing

    def start(self, senders: int = _SENDERS, rest: float = _REST) -> None:
        """Publishes from now on.

        :param senders: tasks or threads, as the flavour has it
        :param rest: seconds that each waits between its messages
        """
        send_on = self._send_on if self.flavour.name == "async" else self._send_on_in_thread
        self._sending += [asyncio.ensure_future(send_on(rest)) for _ in range(senders)]

    async def _send_on(self, rest: float) -> None:
        publisher = self.mq.publisher("", self.queue)
        while not self._stopping.is_set():
            with self._told() as number:
                await publisher.send(number)
            await asyncio.sleep(self._rest(rest))

    async def _send_on_in_thread(self, rest: float) -> None:
        publisher = cast(Any, self.mq)._inner.publisher("", self.queue)

        def send_on() -> None:
            while not self._stopping.wait(self._rest(rest)):
                with self._told() as number:
                    publisher.send(number)

        await threads.run(send_on)

    def _rest(self, rest: float) -> float:
        return max(rest, _LONG_REST) if self.ledger.waiting > _AHEAD else rest

    @contextmanager
    def _told(self) -> Iterator[int]:
        """A fresh id to publish; the ledger gets what the publisher is told."""
        ledger = self.ledger
        number = ledger.next_id()
        try:
            yield number
        except PublishUnknown as doubt:
            ledger.doubt(number, str(doubt))
        except PublishRefused as refused:
            if refused.stored == "perhaps":  # nacked: some queue may have it
                ledger.doubt(number, str(refused))
            else:
                ledger.refuse(number, str(refused))
        else:
            ledger.confirm(number)

    # ------------------------------------------------------------ watching

    async def flows(self, count: int = 20, within: float = DEADLINE) -> None:
        """Waits until so many messages that were published after this call were handled."""
        first = len(self.ledger.published)
        await until(
            lambda: sum(1 for number in list(self.ledger.handled) if number >= first) >= count,
            f"{count} new messages handled",
            within,
        )

    async def sent(self, count: int) -> None:
        """So many messages, published at once and confirmed, in the order of their ids."""
        numbers = [self.ledger.next_id() for _ in range(count)]
        await self.mq.publisher("", self.queue).send_many(numbers)
        for number in numbers:
            self.ledger.confirm(number)

    async def sends_hang(self) -> None:
        """Waits until every publisher waits for its message: the fault is felt."""
        await until(lambda: len(self.ledger.untold) >= len(self._sending), "sends that wait")

    async def recovers(self, before: int) -> None:
        """Waits until a connection was made again more often than that."""
        await until(lambda: self._has_recovered(before), "a connection made again")

    async def _has_recovered(self, before: int) -> bool:
        return await self.recoveries() > before

    async def recoveries(self) -> int:
        """How often a connection was made again."""
        return (await self.mq.health()).recoveries

    async def health(self) -> HealthReport:
        return await self.mq.health()

    # ------------------------------------------------------------ the end

    async def stop_sending(self) -> None:
        """No further message; those on their way get their outcome."""
        self._stopping.set()
        sending, self._sending = self._sending, []
        async with asyncio.timeout(DEADLINE):
            await asyncio.gather(*sending)

    async def drain(self) -> None:
        """Waits until everything confirmed is somewhere, and the queue is empty."""
        await self.stop_sending()
        await until(lambda: not self.ledger.outstanding, "all confirmed ones handled", DEADLINE)
        await until(self._is_empty, "an empty queue", DEADLINE)

    async def _is_empty(self) -> bool:
        await self._take_aside()
        settled = not self.consumer.unsettled and not self.consumer.in_flight
        return settled and await self.mq.message_count(self.queue) == 0

    async def _take_aside(self) -> None:
        for name, ids in (
            (dead_letter_queue(self.queue), self.ledger.dead_lettered),
            (parked_queue(self.queue), self.ledger.parked),
        ):
            while await self.mq.queue_exists(name) and (taken := await self.mq.pull(name)):
                ids.add(int(taken.body))
                await taken.ack()

    async def finish(self, *, faulty: bool = True) -> None:
        """Stops, drains, closes, and checks the ledger."""
        await self.drain()
        assert (await self.health()).ok
        assert await self.mq.close(), "the close was not in time"
        self.ledger.check(faulty=faulty)

    async def abandon(self) -> None:
        """After a failed scenario: whatever is left ends."""
        self._stopping.set()
        for task in self._sending:
            task.cancel()
        if hasattr(self, "mq") and not self.mq.closed:
            await self.mq.close(2.0)
