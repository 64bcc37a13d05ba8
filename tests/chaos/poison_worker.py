"""A worker that one message kills: the process under test of ``test_poison``.

    python -m tests.chaos.poison_worker FLAVOUR URL QUEUE HANDLED MOST

It appends the ids that it handled to the file HANDLED and ends in order at SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import acemq_amqp
from acemq_amqp import Message, blocking

POISON = 25
#: messages in flight at once: the poison's neighbours
PREFETCH = 10


class Handler:
    """Writes what it handled to a file; the poison ends the process instead."""

    def __init__(self, handled: Path) -> None:
        self._handled = handled

    def __call__(self, message: Message) -> None:
        if message.payload == POISON:
            os._exit(1)
        with self._handled.open("a") as file:
            file.write(f"{message.payload}\n")


async def work(url: str, queue: str, handler: Handler, most: int) -> None:
    async with acemq_amqp.connect(url) as mq:
        await mq.consume(queue, handler, prefetch=PREFETCH, max_deliveries=most)
        await mq.run()


def work_blocking(url: str, queue: str, handler: Handler, most: int) -> None:
    with blocking.connect(url) as mq:
        mq.consume(queue, handler, prefetch=PREFETCH, max_deliveries=most)
        mq.run()


def main(flavour: str, url: str, queue: str, handled: str, most: str) -> None:
    handler = Handler(Path(handled))
    if flavour == "async":
        asyncio.run(work(url, queue, handler, int(most)))
    else:
        work_blocking(url, queue, handler, int(most))


if __name__ == "__main__":
    main(*sys.argv[1:])
