"""What a street of kiosks sells, in windows that are committed with all that belongs to them.

    python examples/streaming.py [async|blocking]      # both, one after the other, by default

A query adds up each kiosk's takings by the second. Its windows, its position in the log, the totals
that it sends and the rows that it writes into a table of the business's are one transaction. It is
stopped in the middle, and another one goes on where it was. It needs a RabbitMQ: AMQP_URL names it,
amqp://guest:guest@localhost/ by default. Everything is kept in the database that LOG_STORE names
(postgresql://...), or in a SQLite file of a temporary folder.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import tempfile
import uuid
from typing import Any

from acemq_amqp import eventlog
from acemq_amqp.blocking import eventlog as blocking
from acemq_stores import SqlLogStore

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost/")
BEFORE = [("corner", 3.5), ("station", 2), ("corner", 1.25)]
AFTER = [("station", 40), ("corner", 0.25), ("station", 1.5)]
TAKINGS = {
    "count": lambda sale: 1,
    "sum": lambda sale: sale["price"],
    "max": lambda sale: sale["price"],
}


class Books:
    """The business's own table, written in the query's transaction."""

    def __init__(self, address: str, table: str) -> None:
        self.table = table
        self._address = address
        self._connection: Any
        if address.startswith("sqlite"):
            self._connection = sqlite3.connect(address.removeprefix("sqlite:///"), timeout=30)
        else:
            import psycopg

            self._connection = psycopg.connect(address, autocommit=True)
        self._run(f"CREATE TABLE {table} (id text, kiosk text, taken double precision)")

    def write(self, tx: Any, results: list[eventlog.Output]) -> None:
        """Called by the query with its own open transaction."""
        mark = "?" if self._address.startswith("sqlite") else "%s"
        insert = f"INSERT INTO {self.table} VALUES ({mark}, {mark}, {mark})"
        for result in results:
            tx.execute(insert, (result.id, result.key, result.data["sum"]))

    def rows(self) -> list[tuple[str, str, float]]:
        """What is in the table."""
        return [tuple(row) for row in self._run(f"SELECT * FROM {self.table}").fetchall()]

    def close(self) -> None:
        """Removes the table."""
        self._run(f"DROP TABLE {self.table}")
        self._connection.close()

    def _run(self, sql: str) -> Any:
        found = self._connection.execute(sql)
        if self._address.startswith("sqlite") and not sql.startswith("SELECT"):
            self._connection.commit()
        return found


class Totals:
    """What the windows come to, added up."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.in_bounds = True
        self.by_kiosk: dict[str, dict[str, float]] = {}

    def add(self, messages: list[eventlog.LogMessage]) -> None:
        """Adds windows. A sale may fall to either side of a bound, so there may be several."""
        if not messages:
            raise SystemExit("FAIL: not so: every sale is in a window after a minute")
        for message in messages:
            self._add(message)

    def _add(self, message: eventlog.LogMessage) -> None:
        window = message.window
        assert window is not None
        self.ids.add(window.id)
        self.in_bounds = self.in_bounds and window.end - window.start == 1
        kiosk = self.by_kiosk.setdefault(message.partition, {"count": 0, "sum": 0, "max": 0})
        kiosk["count"] += message.data["count"]
        kiosk["sum"] += message.data["sum"]
        kiosk["max"] = max(kiosk["max"], message.data["max"])

    def complete(self) -> bool:
        """Whether every sale is in one of them."""
        return sum(kiosk["count"] for kiosk in self.by_kiosk.values()) == len(BEFORE + AFTER)

    def check(self, books: Books, status: eventlog.StreamStatus) -> int:
        """Checks everything; how many checks that were."""
        rows = books.rows()
        facts = {
            "every sale is in a window": self.complete(),
            "the corner took 5": self.by_kiosk["corner"]["sum"] == 5,
            "the station took 43.5": self.by_kiosk["station"]["sum"] == 43.5,
            "its best sale was 40": self.by_kiosk["station"]["max"] == 40,
            "windows say from when to when they are": self.in_bounds,
            "the books have each window once": sorted(id for id, *_ in rows) == sorted(self.ids),
            "and the same takings": sum(taken for *_, taken in rows) == 48.5,
            "the second query went on where the first one was": status.events == len(AFTER),
            "and nothing is open or behind": status.open_windows == 0,
        }
        for fact, true in facts.items():
            if not true:
                raise SystemExit(f"FAIL: not so: {fact}")
            print(f"  {fact}")
        return len(facts)


# ------------------------------------------------------------ async


async def stream_async(store: SqlLogStore, name: str, books: Books) -> int:
    async with eventlog.EventLog(url=URL, store=store) as log:
        sales, totals = log.queue(name), log.queue(f"{name}.totals")

        async def sell(takings: list[tuple[str, float]]) -> None:
            for kiosk, price in takings:
                await log.queue(name).partition(kiosk).push({"data": {"price": price}})

        query = eventlog.Stream.from_(sales).window_tumbling(seconds=1, idle_flush_ms=100)
        query.aggregate(TAKINGS).to(totals).write(books.write)
        running = await query.run(query_id=name)
        await sell(BEFORE)  # run() has returned: from here on everything is counted
        await running.drain()
        await running.stop()
        await sell(AFTER)

        running = await query.run(query_id=name)
        found = Totals()
        reader = log.queue(f"{name}.totals").group("books").subscription_mode("all")
        while not found.complete():
            messages = await reader.batch(20).wait().timeout_millis(60_000).pop()
            found.add(messages)
            await log.ack(messages)
        checks = found.check(books, await running.status())
        await running.stop()
        await sales.delete()
        await totals.delete()
    return checks


# ------------------------------------------------------------ blocking


def stream_blocking(store: SqlLogStore, name: str, books: Books) -> int:
    with blocking.EventLog(url=URL, store=store) as log:
        sales, totals = log.queue(name), log.queue(f"{name}.totals")

        def sell(takings: list[tuple[str, float]]) -> None:
            for kiosk, price in takings:
                log.queue(name).partition(kiosk).push({"data": {"price": price}})

        query = blocking.Stream.from_(sales).window_tumbling(seconds=1, idle_flush_ms=100)
        query.aggregate(TAKINGS).to(totals).write(books.write)
        running = query.run(query_id=name)
        sell(BEFORE)  # run() has returned: from here on everything is counted
        running.drain()
        running.stop()
        sell(AFTER)

        running = query.run(query_id=name)
        found = Totals()
        reader = log.queue(f"{name}.totals").group("books").subscription_mode("all")
        while not found.complete():
            messages = reader.batch(20).wait().timeout_millis(60_000).pop()
            found.add(messages)
            log.ack(messages)
        checks = found.check(books, running.status())
        running.stop()
        sales.delete()
        totals.delete()
    return checks


def main(flavours: list[str]) -> int:
    passed = 0
    with tempfile.TemporaryDirectory() as folder:
        for flavour in flavours or ["async", "blocking"]:
            address = os.environ.get("LOG_STORE", f"sqlite:///{folder}/streaming.db")
            unique = uuid.uuid4().hex[:8]
            store, books = SqlLogStore(address), Books(address, f"books_{unique}")
            name = f"kiosks.{flavour}.{unique}"
            print(f"{flavour}: {len(BEFORE + AFTER)} sales of 2 kiosks")
            if flavour == "async":
                passed += asyncio.run(stream_async(store, name, books))
            else:
                passed += stream_blocking(store, name, books)
            books.close()
            store.close()
    print(f"PASS: {passed} checks")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
