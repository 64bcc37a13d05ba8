"""Programs that die at one step of their work, the first time they come to it.

Called as ``python -m tests.patterns.victims PROGRAM FLAVOUR AMQP DATABASE QUEUE STEP MARK``. Where
the file MARK is not there yet, the program makes it and kills itself at STEP, as losing power
would; the next one runs through.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from acemq_amqp import Message, blocking, connect
from acemq_amqp.blocking.patterns import OutboxRelay as BlockingRelay
from acemq_amqp.patterns import Claim, OutboxRelay, idempotent, transactional
from acemq_stores import SqlIdempotencyStore
from tests.stores.databases import opened
from tests.stores.dying import DyingOutbox

#: leases that end while a test waits
SHORT = 1.0
#: one that does not, however busy the machine is
STEADY = 15.0


class Death:
    """Comes once; or sleep, from which somebody else wakes the program."""

    def __init__(self, step: str, mark: str, how: signal.Signals = signal.SIGKILL) -> None:
        self._step = step
        self._mark = Path(mark)
        self._how = how

    def at(self, step: str) -> None:
        """Dies here, if this is the step and nobody has died at it."""
        if step == self._step and not self._mark.exists():
            self._mark.touch()
            # to this very thread: sent to the process, it would come a few steps later
            signal.pthread_kill(threading.get_ident(), self._how)


class DyingStore(SqlIdempotencyStore):
    """Dies around claiming and confirming."""

    death: Death

    async def claim(self, key: str, holder: str = "") -> Claim:
        claim = await super().claim(key, holder)
        self.death.at("claimed")
        return claim

    async def confirm(self, key: str, holder: str = "", result: bytes | None = None) -> bool:
        self.death.at("handled")
        confirmed = await super().confirm(key, holder, result)
        self.death.at("confirmed")
        return confirmed


def effect_of(database: str, id_: str) -> None:
    """What a handler does: a row of its own, committed at once."""
    mark = "?" if database.startswith("sqlite") else "%s"
    with closing(opened(database)) as connection:
        connection.execute(f"INSERT INTO effects VALUES ({mark})", (id_,))
        connection.commit()


def handling(database: str, death: Death, flavour: str) -> Callable[[Message], Any]:
    """An idempotent handler."""
    store = DyingStore(database, claim_timeout=SHORT)
    store.death = death

    def handle(message: Message) -> None:
        death.at("begun")
        effect_of(database, message.envelope.id)

    async def handle_awaited(message: Message) -> None:
        await asyncio.to_thread(handle, message)

    chosen = handle_awaited if flavour == "async" else handle
    return answered(idempotent(store, chosen, in_progress_delay=0.1), death, flavour)


def working(database: str, death: Death, flavour: str) -> Callable[[Message], Any]:
    """A transactional handler."""
    mark = "?" if database.startswith("sqlite") else "%s"
    insert = f"INSERT INTO effects VALUES ({mark})"

    def work(message: Message, tx: Any) -> None:
        death.at("claimed")
        tx.execute(insert, (message.envelope.id,))
        death.at("handled")

    async def work_awaited(message: Message, tx: Any) -> None:
        death.at("claimed")
        await tx.execute(insert, (message.envelope.id,))
        death.at("handled")

    chosen = work_awaited if flavour == "async" else work
    handler = transactional(database, chosen, in_progress_delay=0.1)
    return answered(handler, death, flavour, step="committed")


def answered(
    handler: Any, death: Death, flavour: str, step: str = "answered"
) -> Callable[[Message], Any]:
    """The handler, and a step between its answer and the acknowledgement."""

    def once(message: Message) -> Any:
        ack = handler(message)
        death.at(step)
        return ack

    async def once_awaited(message: Message) -> Any:
        ack = await handler(message)
        death.at(step)
        return ack

    return once_awaited if flavour == "async" else once


def consume(flavour: str, url: str, queue: str, handler: Any) -> None:
    """Consumes until it is killed."""
    if flavour == "blocking":
        mq = blocking.connect(url)
        mq.consume(queue, handler, concurrency=4)
        mq.run()
        return

    async def run() -> None:
        mq = await connect(url)
        await mq.consume(queue, handler, concurrency=4)
        await mq.run()

    asyncio.run(run())


def relay(flavour: str, url: str, database: str, death: Death, lease: float = SHORT) -> None:
    """Relays until it is killed."""
    store = DyingOutbox(database, lease=lease)
    store.death = death
    if flavour == "blocking":
        BlockingRelay(blocking.connect(url), store, interval=0.05, batch=10).start()
        while True:
            time.sleep(3600)

    async def run() -> None:
        await OutboxRelay(await connect(url), store, interval=0.05, batch=10).start()
        await asyncio.Event().wait()

    asyncio.run(run())


def main(
    program: str, flavour: str, url: str, database: str, queue: str, step: str, mark: str
) -> None:
    """Runs one of the programs."""
    how = signal.SIGSTOP if program == "sleeping-relay" else signal.SIGKILL
    dies = Death(step, mark, how)
    if program == "idempotent":
        consume(flavour, url, queue, handling(database, dies, flavour))
    elif program == "inbox":
        consume(flavour, url, queue, working(database, dies, flavour))
    else:
        relay(flavour, url, database, dies, STEADY if program == "steady-relay" else SHORT)


if __name__ == "__main__":
    main(*sys.argv[1:])
