"""A claim check taken on and given up again on a queue in use, with nothing lost or unreadable.

    python examples/codec_swap.py            # in both flavours
    python examples/codec_swap.py blocking

Two publishers send all the time and two readers handle. One after another is switched: readers
first on the way on, as they read both kinds; publishers first on the way off, and readers when
nothing that was put aside can reach them any more. It needs a RabbitMQ: AMQP_URL names it,
amqp://guest:guest@localhost/ by default.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

import acemq_amqp
from acemq_amqp import Message, Topology, blocking
from acemq_amqp.codec import Codec, JsonCodec
from acemq_amqp.patterns import ClaimCheckCodec, FilesystemClaimCheckStore, is_claim_check

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost/")
QUEUE = "swap.photos"
TOPOLOGY = Topology().queue(QUEUE, dead_letter=True)
PLAIN = JsonCodec()

#: who is switched to what, in this order; "drained": first everything sent so far is handled
STEPS = [
    ("reader 1", "claim check"),
    ("reader 2", "claim check"),
    ("publisher 1", "claim check"),
    ("publisher 2", "claim check"),
    ("publisher 1", "plain"),
    ("publisher 2", "plain"),
    ("drained", ""),
    ("reader 1", "plain"),
    ("reader 2", "plain"),
]
#: so many messages are handled between two steps
BETWEEN = 40
#: between two messages of a publisher, in seconds
PAUSE = 0.002


class Ledger:
    """What was begun, what was confirmed and what was handled. Any thread."""

    def __init__(self) -> None:
        self.begun: set[str] = set()
        self.sent: set[str] = set()
        self.handled: list[str] = []
        self.aside: list[str] = []

    def payloads(self, publisher: int) -> Iterator[dict[str, str]]:
        """Photos without end: every third is large."""
        number = 0
        while True:
            number += 1
            name = f"{publisher}-{number}"
            photo = "x" * (100_000 if number % 3 == 0 else 100)
            self.begun.add(name)
            yield {"name": name, "photo": photo}

    def handle(self, message: Message) -> None:
        name = message.payload["name"]
        if is_claim_check(message.body):
            self.aside.append(name)
        self.handled.append(name)

    def has_handled(self, names: set[str]) -> bool:
        return names <= set(self.handled)

    def verdict(self, flavour: str, *, dead: int, parked: int, left: int) -> bool:
        """Prints what became of every message; whether all are well."""
        lost = self.sent - set(self.handled)
        good = bool(self.aside) and not (lost or dead or parked or left)
        print(
            f"{flavour}: {len(self.sent)} sent, {len(set(self.aside))} of them put aside, "
            f"{len(lost)} lost, {dead} dead, {parked} parked, {left} left in the queue"
        )
        print(f"{'PASS' if good else 'FAIL'}: {flavour}", flush=True)
        return good


# ------------------------------------------------------------ async


async def swap_async(codecs: dict[str, Codec]) -> bool:
    ledger, running = Ledger(), True

    async def publish(number: int) -> None:
        for payload in ledger.payloads(number):
            if not running:
                return
            await publishers[f"publisher {number}"].send(payload)
            ledger.sent.add(payload["name"])
            await asyncio.sleep(PAUSE)

    async def until(wanted: int) -> None:
        while len(ledger.handled) < wanted:
            await asyncio.sleep(0.01)

    async def handle(message: Message) -> None:
        ledger.handle(message)

    async with acemq_amqp.connect(URL) as mq:
        await mq.declare(TOPOLOGY)
        names = ["publisher 1", "publisher 2"]
        publishers = {name: mq.publisher("", QUEUE, codec=PLAIN) for name in names}
        publishing = [asyncio.create_task(publish(number)) for number in (1, 2)]
        readers = {name: await mq.consume(QUEUE, handle) for name in ("reader 1", "reader 2")}
        for who, kind in STEPS:
            await until(len(ledger.handled) + BETWEEN)
            print(f"async: {who} {kind}".rstrip())
            if who == "drained":
                before = set(ledger.begun)
                while not ledger.has_handled(before):
                    await asyncio.sleep(0.01)
            elif who in readers:
                await readers[who].close()
                readers[who] = await mq.consume(QUEUE, handle, codec=codecs[kind])
            else:
                publishers[who] = mq.publisher("", QUEUE, codec=codecs[kind])
        await until(len(ledger.handled) + BETWEEN)
        running = False
        await asyncio.gather(*publishing)
        while not ledger.has_handled(ledger.sent):
            await asyncio.sleep(0.01)
        dead = await mq.message_count(f"{QUEUE}.dlq")
        parked = await mq.message_count(f"{QUEUE}.parked")
        left = await mq.message_count(QUEUE)
        return ledger.verdict("async", dead=dead, parked=parked, left=left)


# ------------------------------------------------------------ blocking


def swap_blocking(codecs: dict[str, Codec]) -> bool:
    ledger, stop = Ledger(), threading.Event()

    def publish(number: int) -> None:
        for payload in ledger.payloads(number):
            if stop.is_set():
                return
            publishers[f"publisher {number}"].send(payload)
            ledger.sent.add(payload["name"])
            time.sleep(PAUSE)

    def until(wanted: int) -> None:
        while len(ledger.handled) < wanted:
            time.sleep(0.01)

    with blocking.connect(URL) as mq:
        mq.declare(TOPOLOGY)
        names = ["publisher 1", "publisher 2"]
        publishers = {name: mq.publisher("", QUEUE, codec=PLAIN) for name in names}
        publishing = [threading.Thread(target=publish, args=(number,)) for number in (1, 2)]
        for thread in publishing:
            thread.start()
        readers = {name: mq.consume(QUEUE, ledger.handle) for name in ("reader 1", "reader 2")}
        for who, kind in STEPS:
            until(len(ledger.handled) + BETWEEN)
            print(f"blocking: {who} {kind}".rstrip())
            if who == "drained":
                before = set(ledger.begun)
                while not ledger.has_handled(before):
                    time.sleep(0.01)
            elif who in readers:
                readers[who].close()
                readers[who] = mq.consume(QUEUE, ledger.handle, codec=codecs[kind])
            else:
                publishers[who] = mq.publisher("", QUEUE, codec=codecs[kind])
        until(len(ledger.handled) + BETWEEN)
        stop.set()
        for thread in publishing:
            thread.join()
        while not ledger.has_handled(ledger.sent):
            time.sleep(0.01)
        dead, parked = mq.message_count(f"{QUEUE}.dlq"), mq.message_count(f"{QUEUE}.parked")
        return ledger.verdict("blocking", dead=dead, parked=parked, left=mq.message_count(QUEUE))


def main() -> int:
    wanted = sys.argv[1:] or ["async", "blocking"]
    with tempfile.TemporaryDirectory() as folder:
        store = FilesystemClaimCheckStore(folder)
        codecs: dict[str, Codec] = {"plain": PLAIN, "claim check": ClaimCheckCodec(PLAIN, store)}
        passed = []
        if "async" in wanted:
            passed.append(asyncio.run(swap_async(codecs)))
        if "blocking" in wanted:
            passed.append(swap_blocking(codecs))
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
