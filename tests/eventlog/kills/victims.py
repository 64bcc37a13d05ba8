"""A query in a process that dies at one step of its work.

Called as ``python -m tests.eventlog.kills.victims FLAVOUR AMQP DATABASE SOURCE TOTALS RETRIES
STEP``. It sums by the second, into a log and, in the same transaction, into a table; it dies at the
first STEP that it comes to, as losing power would, and runs on where it is given none. A payload
that is ``"poison"`` kills it always.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from typing import Any

from acemq_amqp import eventlog
from acemq_amqp.blocking import eventlog as blocking_eventlog
from acemq_amqp.eventlog.store import Fence, Position, Step
from acemq_stores import SqlLogStore
from tests.stores.dying import DyingOutbox

#: a lease that ends while a test waits
SHORT = 1.0
#: steps of a cycle, of the flush of quiet windows, and of the relay
CYCLE = ("held", "taken", "folded", "writing", "committing", "committed")
FLUSH = ("flush found", "flush writing", "flush committing", "flush committed")
RELAY = ("claimed", "published", "marked")
QUERY = "sums"


class Death:
    """Comes at one step."""

    def __init__(self, step: str) -> None:
        self._step = step
        self.quiet = False

    def at(self, step: str) -> None:
        """Dies here, if this is the step."""
        if step == self._step:
            os.kill(os.getpid(), signal.SIGKILL)

    def in_cycle(self, step: str) -> None:
        """Dies here, if this is the step, be it of a cycle or of the flush."""
        self.at(f"flush {step}" if self.quiet else step)


class DyingStore(SqlLogStore):
    """Dies around its transactions. A commit that moves no position is the flush's."""

    def __init__(self, database: str, death: Death) -> None:
        outbox = DyingOutbox(database, lease=SHORT)
        outbox.death = death
        super().__init__(database, lease=SHORT, outbox=outbox)
        self._death = death

    async def hold(self, group: str, stream: str, holder: str) -> Position | None:
        position = await super().hold(group, stream, holder)
        if position is not None:
            self._upto = position.next
            self._death.at("held")
        return position

    async def windows(self, *given: Any) -> Any:
        self._death.at("taken")
        found = await super().windows(*given)
        self._death.at("folded")
        return found

    async def ripe(self, *given: Any) -> Any:
        found = await super().ripe(*given)
        if found:
            self._death.at("flush found")
        return found

    async def commit(self, fence: Fence, holder: str, step: Step) -> bool:
        self._death.quiet = bool(step.closed) and step.upto == self._upto
        if step.windows or step.closed:
            self._death.in_cycle("committing")
        done = await super().commit(fence, holder, step)
        self._upto = step.upto
        if step.windows or step.closed:
            self._death.in_cycle("committed")
        return done


class Program:
    """The query, in either flavour."""

    def __init__(self, database: str, totals: str, death: Death) -> None:
        self._mark = "?" if database.startswith("sqlite") else "%s"
        self._totals = totals
        self._death = death

    def said(self, query: Any, log: Any) -> Any:
        """The query in its words."""
        query.map(self.deadly).window_tumbling(seconds=1, idle_flush_ms=100)
        query.aggregate({"count": lambda _: 1, "sum": lambda number: number})
        return query.write(self.write).to(log.queue(self._totals))

    def deadly(self, payload: Any) -> Any:
        if payload == "poison":
            os.kill(os.getpid(), signal.SIGKILL)
        return payload

    def write(self, tx: Any, results: list[Any]) -> None:
        insert = f"INSERT INTO ledger VALUES ({', '.join([self._mark] * 4)})"
        for each in results:
            tx.execute(insert, (each.id, each.lane, each.data["count"], each.data["sum"]))
        self._death.in_cycle("writing")


#: A relay's lease is three times what a send may take.
TIMEOUT = SHORT / 3
OPTIONS: dict[str, Any] = {"query_id": QUERY, "batch_size": 7}


def run_blocking(
    url: str, store: DyingStore, source: str, settings: dict[str, Any], program: Program
) -> None:
    log = blocking_eventlog.EventLog(url=url, store=store, timeout=TIMEOUT)
    queue = log.queue(source).config(settings).subscription_mode("all")
    program.said(blocking_eventlog.Stream.from_(queue), log).run(**OPTIONS)
    while True:
        time.sleep(3600)


async def run_async(
    url: str, store: DyingStore, source: str, settings: dict[str, Any], program: Program
) -> None:
    log = eventlog.EventLog(url=url, store=store, timeout=TIMEOUT)
    queue = log.queue(source).config(settings).subscription_mode("all")
    await program.said(eventlog.Stream.from_(queue), log).run(**OPTIONS)
    await asyncio.Event().wait()


def main(
    flavour: str, url: str, database: str, source: str, totals: str, retries: str, step: str
) -> None:
    """Runs the query until it is killed."""
    death = Death(step)
    store, program = DyingStore(database, death), Program(database, totals, death)
    settings = {"retry_limit": int(retries)}
    if flavour == "blocking":
        run_blocking(url, store, source, settings, program)
    asyncio.run(run_async(url, store, source, settings, program))


if __name__ == "__main__":
    main(*sys.argv[1:])
