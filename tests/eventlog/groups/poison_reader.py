"""A reader that one message kills: the process under test of ``test_poison``.

    python -m tests.eventlog.groups.poison_reader FLAVOUR URL DATABASE LOG LANE HANDLED

It appends the numbers that it handled to the file HANDLED, and ends once it has read all.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from acemq_amqp import eventlog
from acemq_amqp.blocking import eventlog as blocking
from acemq_amqp.eventlog import LogMessage
from acemq_stores import SqlLogStore

POISON = 3
CONFIG = {"retry_limit": 1, "lease_time": 1}


class Handler:
    """Writes what it handled to a file; the poison ends the process instead."""

    def __init__(self, handled: Path) -> None:
        self._handled = handled

    def __call__(self, message: LogMessage) -> None:
        if message.data == POISON:
            os._exit(1)
        with self._handled.open("a") as file:
            file.write(f"{message.data}\n")


def reads(client: Any, log: str, lane: str) -> Any:
    queue = client.queue(log).group("g").subscription_mode("all").each().config(CONFIG)
    return queue.partition(lane) if lane else queue


async def work(url: str, database: str, log: str, lane: str, handler: Handler) -> None:
    async with eventlog.EventLog(url=url, store=SqlLogStore(database)) as client:
        await reads(client, log, lane).idle_millis(1).consume(handler)


def work_blocking(url: str, database: str, log: str, lane: str, handler: Handler) -> None:
    with blocking.EventLog(url=url, store=SqlLogStore(database)) as client:
        reads(client, log, lane).idle_millis(1).consume(handler)


def main(flavour: str, url: str, database: str, log: str, lane: str, handled: str) -> None:
    handler = Handler(Path(handled))
    if flavour == "async":
        asyncio.run(work(url, database, log, lane, handler))
    else:
        work_blocking(url, database, log, lane, handler)


if __name__ == "__main__":
    main(*sys.argv[1:])
