"""A worker that is asked to stop: the process under test of ``test_stopping``.

    python -m tests.chaos.worker FLAVOUR URL QUEUE HANDLED SECONDS

Each message takes SECONDS. It appends the ids that it handled to the file HANDLED.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import acemq_amqp
from acemq_amqp import Message, blocking


class Handler:
    """Works on a message, then writes down that it did."""

    def __init__(self, handled: Path, seconds: float) -> None:
        self._handled = handled
        self._seconds = seconds

    def __call__(self, message: Message) -> None:
        self._note(f"began {message.payload}")
        time.sleep(self._seconds)
        self._note(f"ended {message.payload}")

    def _note(self, line: str) -> None:
        with self._handled.open("a") as file:
            file.write(f"{line}\n")


async def work(url: str, queue: str, handler: Handler) -> None:
    async with acemq_amqp.connect(url) as mq:
        await mq.consume(queue, handler, concurrency=2)
        await mq.run()


def work_blocking(url: str, queue: str, handler: Handler) -> None:
    with blocking.connect(url) as mq:
        mq.consume(queue, handler, concurrency=2)
        mq.run()


def main(flavour: str, url: str, queue: str, handled: str, seconds: str) -> None:
    handler = Handler(Path(handled), float(seconds))
    if flavour == "async":
        asyncio.run(work(url, queue, handler))
    else:
        work_blocking(url, queue, handler)


if __name__ == "__main__":
    main(*sys.argv[1:])
