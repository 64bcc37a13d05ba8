"""A program that publishes as fast as it may, and tells its peak memory: under test in
``test_publishing``.

    python -m tests.chaos.flood FLAVOUR URL QUEUE MESSAGES

It prints how many were confirmed, how many were outstanding at most, and the peak in KiB.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from pathlib import Path

import acemq_amqp
from acemq_amqp import blocking

_SENDERS, _BATCH = 20, 500
_BODY = "x" * 100
#: for a link on which a batch may take its time
_TIMEOUT = 3600.0


def peak() -> int:
    """The most memory that this program has had, in KiB.

    Not ``ru_maxrss``: that begins with what the process had from which this one was started.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


class Tally:
    """What the senders did together."""

    def __init__(self, messages: int) -> None:
        self._batches = itertools.count()
        self._last = messages // _BATCH
        self._lock = threading.Lock()
        self.confirmed = 0
        self.most = 0

    def more(self) -> bool:
        """Whether there is another batch to send."""
        return next(self._batches) < self._last

    def add(self, results: list[acemq_amqp.PublishResult], outstanding: int) -> None:
        with self._lock:
            self.confirmed += len(results)
            self.most = max(self.most, outstanding)

    def tell(self) -> None:
        print(self.confirmed, self.most, peak())


async def flood(url: str, queue: str, tally: Tally) -> None:
    async with acemq_amqp.connect(url, timeout=_TIMEOUT) as mq:
        publisher = mq.publisher("", queue)

        async def send() -> None:
            while tally.more():
                tally.add(await publisher.send_many([_BODY] * _BATCH), mq.outstanding)

        await asyncio.gather(*(send() for _ in range(_SENDERS)))


def flood_blocking(url: str, queue: str, tally: Tally) -> None:
    with blocking.connect(url, timeout=_TIMEOUT) as mq:
        publisher = mq.publisher("", queue)

        def send() -> None:
            while tally.more():
                tally.add(publisher.send_many([_BODY] * _BATCH), mq.outstanding)

        senders = [threading.Thread(target=send) for _ in range(_SENDERS)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()


def main(flavour: str, url: str, queue: str, messages: str) -> None:
    tally = Tally(int(messages))
    if flavour == "async":
        asyncio.run(flood(url, queue, tally))
    else:
        flood_blocking(url, queue, tally)
    tally.tell()


if __name__ == "__main__":
    main(*sys.argv[1:])
