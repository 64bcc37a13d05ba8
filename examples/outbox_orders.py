"""A shop: an order and its message are one commit, and each order is shipped once. Prints PASS.

    python examples/outbox_orders.py [async|blocking]      # both, one after the other, by default

Kill it at any moment and start it again: it goes on, and the sums come out the same. It needs a
RabbitMQ: AMQP_URL names it, amqp://guest:guest@localhost/ by default. Its orders are in a SQLite
file in the folder for temporary files; ORDERS names another.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from acemq_amqp import Envelope, Message, Topology, blocking, connect
from acemq_amqp.blocking.patterns import OutboxRelay as BlockingRelay
from acemq_amqp.patterns import OutboxRelay, record, transactional
from acemq_stores import SqlOutboxStore, create_schema

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost/")
FOLDER = Path(os.environ.get("ORDERS", f"{tempfile.gettempdir()}/acemq-outbox-orders"))
ORDERS = 100
CUSTOMERS = 7
TIMEOUT = 2.0
UNSHIPPED = "SELECT count(*) FROM orders WHERE number NOT IN (SELECT number FROM shipped)"


class Shop:
    """The tables of one flavour's run, and what is done with them."""

    def __init__(self, flavour: str) -> None:
        FOLDER.mkdir(exist_ok=True)
        self.path = FOLDER / f"{flavour}.db"
        self.queue = f"shop.shipping.{flavour}"
        self.topology = Topology().queue(self.queue, dead_letter=True)
        self.database = f"sqlite:///{self.path}"
        create_schema(self.database)
        with self.opened() as tx:
            tx.execute("CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, paid TEXT)")
            tx.execute("CREATE TABLE IF NOT EXISTS shipped (number INTEGER, customer TEXT)")
        # What a relay held that was killed, the next one gets after the lease: it is three times as
        # long as a send may take.
        self.outbox = SqlOutboxStore(self.database, lease=3 * TIMEOUT)
        self.ship = transactional(self.database, self.shipping)

    def opened(self) -> sqlite3.Connection:
        """A connection whose ``with`` is a transaction."""
        return sqlite3.connect(self.path, timeout=30)

    def place_orders(self, mq: Any) -> None:
        """Places the orders that are not there yet: each in one transaction with its message."""
        tx = self.opened()
        for number in range(1, ORDERS + 1):
            customer = f"customer-{number % CUSTOMERS}"
            message = record(
                mq,
                "",
                self.queue,
                {"number": number, "customer": customer},
                envelope=Envelope(id=f"order-{number}", type="order.placed"),
                ordering_key=customer,  # the orders of one customer are sent in order
            )
            try:
                with tx:
                    tx.execute("BEGIN IMMEDIATE")
                    new = "INSERT INTO orders VALUES (?, 'yes') ON CONFLICT DO NOTHING"
                    if tx.execute(new, (number,)).rowcount:
                        self.outbox.add(message, connection=tx)
                    if number % 10 == 0:
                        raise PermissionError("the bank declined")  # undoes both
            except PermissionError:
                continue
        tx.close()

    def shipping(self, message: Message, tx: sqlite3.Connection) -> None:
        """The handler. What it writes on ``tx`` and the note that it was here are one commit."""
        order = message.payload
        tx.execute("INSERT INTO shipped VALUES (?, ?)", (order["number"], order["customer"]))

    def unshipped(self) -> int:
        """Orders that are paid and not shipped."""
        with self.opened() as tx:
            count: int = tx.execute(UNSHIPPED).fetchone()[0]
        return count

    def report(self, flavour: str) -> bool:
        """Prints what came of it; whether it is what should have come."""
        with self.opened() as tx:
            orders = [number for (number,) in tx.execute("SELECT number FROM orders")]
            shipped = [number for (number,) in tx.execute("SELECT number FROM shipped")]
        expected = [number for number in range(1, ORDERS + 1) if number % 10]
        print(f"{flavour}: {ORDERS} orders, {ORDERS - len(orders)} declined, {len(orders)} paid")
        print(
            f"{flavour}: {len(shipped)} shipped, {len(shipped) - len(set(shipped))} of them twice"
        )
        return sorted(orders) == sorted(shipped) == expected

    def close(self) -> None:
        """Leaves nothing behind."""
        self.outbox.close()
        self.ship.close()  # type: ignore[attr-defined]
        for file in FOLDER.glob(f"{self.path.name}*"):
            file.unlink()


def run_blocking(shop: Shop) -> None:
    """The shop on threads."""
    with blocking.connect(URL, timeout=TIMEOUT) as mq:
        mq.declare(shop.topology)
        with BlockingRelay(mq, shop.outbox, interval=0.1), mq.consume(shop.queue, shop.ship):
            shop.place_orders(mq)
            while shop.unshipped():
                time.sleep(0.05)


async def run_async(shop: Shop) -> None:
    """The shop on an event loop; what blocks runs beside it, in threads."""
    async with connect(URL, timeout=TIMEOUT) as mq:
        await mq.declare(shop.topology)
        relay = OutboxRelay(mq, shop.outbox, interval=0.1)
        async with relay, await mq.consume(shop.queue, shop.ship):
            await asyncio.to_thread(shop.place_orders, mq)
            while await asyncio.to_thread(shop.unshipped):
                await asyncio.sleep(0.05)


def main(flavours: list[str]) -> int:
    passed = True
    for flavour in flavours or ["async", "blocking"]:
        shop = Shop(flavour)
        asyncio.run(run_async(shop)) if flavour == "async" else run_blocking(shop)
        passed = shop.report(flavour) and passed
        shop.close()
    print("PASS" if passed else "FAIL")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
