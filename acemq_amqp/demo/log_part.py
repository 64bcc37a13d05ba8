"""The event log in both flavours: a replay, and windows, with positions and state in SQLite.

A parcel's scans are read by one group, by another, and by the first again, moved back. Then two
kiosks' sales are added up by the minute in which they were made.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from acemq_amqp import eventlog
from acemq_amqp.blocking import eventlog as blocking
from acemq_amqp.demo.findings import Expectation, differing
from acemq_amqp.demo.pattern_findings import PatternFindings
from acemq_amqp.demo.scenario import PATIENCE
from acemq_stores import SqlLogStore

SCANS: Final = ("posted", "sorted", "on the van", "delivered")
#: kiosk, second, price; a kiosk's minute is over by its next sale
SALES: Final = (
    *(("corner", 0, 3), ("station", 10, 2), ("corner", 20, 4)),
    *(("station", 65, 40), ("corner", 70, 1)),
)
CLOSED: Final = 2
LOGS: Final = (
    Expectation("scans read", len(SCANS), "event log: in order, and they stay"),
    Expectation("read by another", len(SCANS), "a group of its own, from the first on"),
    Expectation("read again", len(SCANS), "the first one, moved back an hour"),
    Expectation("the other moved by", 0, "each group has its own cursor"),
    Expectation("windows closed", CLOSED, "a minute of each kiosk, sent once"),
    Expectation("their takings", 9, "one commit: windows, output, position"),
    Expectation("windows open", 2, "in the database, for the next run too"),
)
_LANE: Final = "parcel-1"
_SETTINGS: Final = {"dead_letters": False}
_BACK: Final = timedelta(hours=1)


class _Play:
    """Names of one play, and what was seen in it."""

    def __init__(self) -> None:
        self.name = f"acemq-demo.{secrets.token_hex(4)}"
        self.started = time.monotonic()
        self.reads: list[list[str]] = []
        self.windows: list[eventlog.LogMessage] = []

    def sales(self, face: Any) -> Any:
        """The log of sales."""
        return face.queue(f"{self.name}.sales").config(_SETTINGS)

    def totals(self, face: Any) -> Any:
        """The log of closed windows."""
        return face.queue(f"{self.name}.totals").config(_SETTINGS)

    def lane(self, face: Any, group: str) -> Any:
        """A parcel's scans, for a group."""
        lane = face.queue(self.name).config(_SETTINGS).partition(_LANE).group(group)
        return lane.subscription_mode("all").each().limit(len(SCANS)).idle_millis(1000 * PATIENCE)

    def reading(self) -> Any:
        """A handler for one more read."""
        read: list[str] = []
        self.reads.append(read)
        return lambda message: read.append(message.data)

    def query(self, stream: Any, face: Any) -> Any:
        """What is done with sales."""
        stream.window_tumbling(seconds=60, event_time=lambda sale: sale["at"], idle_lanes="wait")
        return stream.aggregate({"sum": lambda sale: sale["price"]}).to(self.totals(face))

    def books(self, face: Any) -> Any:
        """The closed windows, for a group."""
        totals = self.totals(face).group("books").subscription_mode("all")
        return totals.each().limit(CLOSED).idle_millis(1000 * PATIENCE)

    def found(self, flavour: str, moved: int, status: eventlog.StreamStatus) -> PatternFindings:
        """Counts the play."""
        reads = [len(read) if read == list(SCANS) else 0 for read in self.reads]
        takings = sum(each.data["sum"] for each in self.windows)
        counts = (*reads, moved, len(self.windows), takings, status.open_windows or 0)
        return PatternFindings(flavour, counts, time.monotonic() - self.started)


def play_log_async(url: str) -> PatternFindings:
    """Plays it on an event loop of its own."""
    with tempfile.TemporaryDirectory(prefix="acemq-demo-") as folder:
        store = SqlLogStore(f"sqlite:///{folder}/log.db")
        try:
            return asyncio.run(_play_async(url, store, _Play()))
        finally:
            store.close()


async def _play_async(url: str, store: SqlLogStore, play: _Play) -> PatternFindings:
    async with eventlog.EventLog(url=url, store=store, fail_fast=True) as log:
        try:
            await play.lane(log, "dispatch").push([{"data": scan} for scan in SCANS])
            for group in ("dispatch", "audit"):
                await play.lane(log, group).consume(play.reading())
            back = {"timestamp": datetime.now(UTC) - _BACK}
            await log.admin.seek_consumer_group("dispatch", play.name, back)
            await play.lane(log, "dispatch").consume(play.reading())
            moved = (await play.lane(log, "audit").lag()).messages

            query = play.query(eventlog.Stream.from_(play.sales(log)), log)
            async with await query.run(query_id=play.name) as running:
                for kiosk, at, price in SALES:
                    sale = {"data": {"at": at, "price": price}}
                    await play.sales(log).partition(kiosk).push(sale)
                await running.drain()
                status = await running.status()
            await play.books(log).consume(lambda message: play.windows.append(message))
            return play.found("async", moved, status)
        finally:
            await log.queue(play.name).delete()
            await play.sales(log).delete()
            await play.totals(log).delete()


def play_log_blocking(url: str) -> PatternFindings:
    """Plays it on the calling thread."""
    with tempfile.TemporaryDirectory(prefix="acemq-demo-") as folder:
        store = SqlLogStore(f"sqlite:///{folder}/log.db")
        try:
            return _play_blocking(url, store, _Play())
        finally:
            store.close()


def _play_blocking(url: str, store: SqlLogStore, play: _Play) -> PatternFindings:
    with blocking.EventLog(url=url, store=store, fail_fast=True) as log:
        try:
            play.lane(log, "dispatch").push([{"data": scan} for scan in SCANS])
            for group in ("dispatch", "audit"):
                play.lane(log, group).consume(play.reading())
            back = {"timestamp": datetime.now(UTC) - _BACK}
            log.admin.seek_consumer_group("dispatch", play.name, back)
            play.lane(log, "dispatch").consume(play.reading())
            moved = play.lane(log, "audit").lag().messages

            query = play.query(blocking.Stream.from_(play.sales(log)), log)
            with query.run(query_id=play.name) as running:
                for kiosk, at, price in SALES:
                    sale = {"data": {"at": at, "price": price}}
                    play.sales(log).partition(kiosk).push(sale)
                running.drain()
                status = running.status()
            play.books(log).consume(lambda message: play.windows.append(message))
            return play.found("blocking", moved, status)
        finally:
            log.queue(play.name).delete()
            play.sales(log).delete()
            play.totals(log).delete()


def wrong_log_counts(findings: PatternFindings) -> tuple[str, ...]:
    """A sentence for each count that is not as expected; empty where all is well."""
    return differing(findings.flavour, LOGS, findings.counts)
