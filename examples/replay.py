"""A parcel's journey, read again and again: reading is a cursor, and what was read stays.

    python examples/replay.py [async|blocking]      # both, one after the other, by default

A dispatcher reads the scans of a parcel; an auditor, who comes later, reads the same ones from the
first on; then the dispatcher goes back an hour. It needs a RabbitMQ: AMQP_URL names it,
amqp://guest:guest@localhost/ by default. Positions are kept in the database that LOG_STORE names
(postgresql://...), or in a SQLite file of a temporary folder.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from acemq_amqp import eventlog
from acemq_amqp.blocking import eventlog as blocking
from acemq_amqp.errors import ConfigurationError
from acemq_stores import SqlLogStore

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost/")
PARCEL = "parcel-4711"
SCANS = ["posted", "sorted", "on the van", "at the door", "delivered"]


class Checks:
    """What was found to be so."""

    def __init__(self, flavour: str) -> None:
        self._flavour = flavour
        self.passed = 0

    def that(self, true: bool, what: str) -> None:
        """One more; or the end."""
        if not true:
            raise SystemExit(f"FAIL: {self._flavour}: not so: {what}")
        self.passed += 1
        print(f"  {what}")


def an_hour_ago() -> datetime:
    """It names its zone; a time that does not is refused."""
    return datetime.now(UTC) - timedelta(hours=1)


# ------------------------------------------------------------ async


async def replay_async(store: SqlLogStore, name: str, checks: Checks) -> None:
    async with eventlog.EventLog(url=URL, store=store) as log:
        scans = log.queue(name).partition(PARCEL)
        await scans.push([{"data": {"scan": scan}} for scan in SCANS])
        await log.queue(name).partition("parcel-1").push({"data": {"scan": "lost"}})

        async def read_by(group: str, mode: str = "new") -> list[str]:
            """Reads the parcel's scans for a group, until so many were read."""
            seen: list[str] = []

            def note(message: eventlog.LogMessage) -> None:
                seen.append(message.data["scan"])

            lane = log.queue(name).partition(PARCEL).group(group).subscription_mode(mode)
            await lane.each().limit(len(SCANS)).idle_millis(10_000).consume(note)
            return seen

        def popped(group: str) -> eventlog.LogQueue:
            return log.queue(name).partition(PARCEL).group(group).batch(10).wait(False)

        checks.that(await read_by("dispatch", "all") == SCANS, "dispatch read a parcel in order")
        checks.that(await read_by("audit", "all") == SCANS, "audit, new, read all of it again")
        lag = await log.queue(name).partition(PARCEL).group("audit").lag()
        checks.that(lag.messages == 0, "audit knows that it has caught up")

        back = {"timestamp": an_hour_ago()}
        would = await log.queue(name).group("dispatch").seek({**back, "dry_run": True})
        checks.that(await popped("dispatch").pop() == [], "asking what a seek would do moves none")
        moved = await log.admin.seek_consumer_group("dispatch", name, back)
        checks.that([each.after for each in moved] == [each.after for each in would], "and is true")
        checks.that(await read_by("dispatch") == SCANS, "dispatch, sent back, read the same again")
        checks.that(await popped("audit").pop() == [], "audit stayed where it was")
        try:
            await log.queue(name).group("audit").seek({"timestamp": datetime(2024, 1, 1)})
        except ConfigurationError as refusal:
            checks.that("no zone" in str(refusal), "a time without a zone is refused")

        taken = await log.queue(name).partition("parcel-1").group("search").wait(False).pop()
        checks.that(taken == [], "a group that is new begins with what comes next")
        await log.queue(name).partition("parcel-1").push({"data": {"scan": "found"}})
        (message,) = await log.queue(name).group("search").wait().timeout_millis(60_000).pop()
        await log.ack(message)
        checks.that(message["data"] == {"scan": "found"}, "and is given that, and acknowledges it")
        checks.that((await log.queue(name).group("search").lag()).messages == 0, "once")
        await log.queue(name).delete()


# ------------------------------------------------------------ blocking


def replay_blocking(store: SqlLogStore, name: str, checks: Checks) -> None:
    with blocking.EventLog(url=URL, store=store) as log:
        scans = log.queue(name).partition(PARCEL)
        scans.push([{"data": {"scan": scan}} for scan in SCANS])
        log.queue(name).partition("parcel-1").push({"data": {"scan": "lost"}})

        def read_by(group: str, mode: str = "new") -> list[str]:
            """Reads the parcel's scans for a group, until so many were read."""
            seen: list[str] = []

            def note(message: blocking.LogMessage) -> None:
                seen.append(message.data["scan"])

            lane = log.queue(name).partition(PARCEL).group(group).subscription_mode(mode)
            lane.each().limit(len(SCANS)).idle_millis(10_000).consume(note)
            return seen

        def popped(group: str) -> blocking.LogQueue:
            return log.queue(name).partition(PARCEL).group(group).batch(10).wait(False)

        checks.that(read_by("dispatch", "all") == SCANS, "dispatch read a parcel in order")
        checks.that(read_by("audit", "all") == SCANS, "audit, new, read all of it again")
        lag = log.queue(name).partition(PARCEL).group("audit").lag()
        checks.that(lag.messages == 0, "audit knows that it has caught up")

        back = {"timestamp": an_hour_ago()}
        would = log.queue(name).group("dispatch").seek({**back, "dry_run": True})
        checks.that(popped("dispatch").pop() == [], "asking what a seek would do moves none")
        moved = log.admin.seek_consumer_group("dispatch", name, back)
        checks.that([each.after for each in moved] == [each.after for each in would], "and is true")
        checks.that(read_by("dispatch") == SCANS, "dispatch, sent back, read the same again")
        checks.that(popped("audit").pop() == [], "audit stayed where it was")
        try:
            log.queue(name).group("audit").seek({"timestamp": datetime(2024, 1, 1)})
        except ConfigurationError as refusal:
            checks.that("no zone" in str(refusal), "a time without a zone is refused")

        taken = log.queue(name).partition("parcel-1").group("search").wait(False).pop()
        checks.that(taken == [], "a group that is new begins with what comes next")
        log.queue(name).partition("parcel-1").push({"data": {"scan": "found"}})
        (message,) = log.queue(name).group("search").wait().timeout_millis(60_000).pop()
        log.ack(message)
        checks.that(message["data"] == {"scan": "found"}, "and is given that, and acknowledges it")
        checks.that(log.queue(name).group("search").lag().messages == 0, "once")
        log.queue(name).delete()


def main(flavours: list[str]) -> int:
    passed = 0
    with tempfile.TemporaryDirectory() as folder:
        for flavour in flavours or ["async", "blocking"]:
            store = SqlLogStore(os.environ.get("LOG_STORE", f"sqlite:///{folder}/replay.db"))
            name, checks = f"parcels.{flavour}.{uuid.uuid4().hex[:8]}", Checks(flavour)
            print(f"{flavour}: {len(SCANS)} scans of {PARCEL}")
            run: Any = replay_async if flavour == "async" else replay_blocking
            done = run(store, name, checks)
            if flavour == "async":
                asyncio.run(done)
            store.close()
            passed += checks.passed
    print(f"PASS: {passed} checks")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
