"""What is played of the patterns: documents, payments, orders and jobs, and where they travel.

Claim check, idempotency, outbox and consumer group, each with a queue of its own. What they keep is
in a folder for temporary files: payloads as files, all else in SQLite. Both flavours play the same.
"""

from __future__ import annotations

import secrets
import sqlite3
import threading
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from acemq_amqp.codecs.json import JsonCodec
from acemq_amqp.envelope import Envelope
from acemq_amqp.message import Message
from acemq_amqp.metrics import Metrics
from acemq_amqp.naming import dead_letter_queue, parked_queue
from acemq_amqp.patterns import ClaimCheckCodec, FilesystemClaimCheckStore, record
from acemq_amqp.topology import Topology
from acemq_stores import SqlIdempotencyStore, SqlOutboxStore, create_schema

DOCUMENTS: Final = 20
#: Every second document is longer than this, in bytes, and does not travel itself.
THRESHOLD: Final = 1000
PAYMENTS: Final = 30
TWICE: Final = 10
ORDERS: Final = 25
CUSTOMERS: Final = 4
JOBS: Final = 60
FIRST_SIZE: Final = 2
SIZE: Final = 4
PREFETCH: Final = 5

_UNDONE_EVERY: Final = 5


class Declined(Exception):
    """Why a transaction is undone."""


def document(number: int) -> dict[str, Any]:
    """A document as it is published: a long one, then a short one."""
    return {"document": number, "text": "x" * (2 * THRESHOLD if number % 2 else 10)}


def payments() -> list[Envelope]:
    """The payments' envelopes: the first few come a second time, under their ids."""
    numbers = [*range(PAYMENTS), *range(TWICE)]
    return [Envelope(id=f"payment-{number}", type="payment") for number in numbers]


class PatternStage:
    """Queues, folder and database of one flavour's play, and what its handlers saw.

    Any thread may hand it a message.
    """

    def __init__(self, folder: Path) -> None:
        name = f"acemq-demo.{secrets.token_hex(4)}"
        self.documents, self.payments = f"{name}.documents", f"{name}.payments"
        self.orders, self.jobs = f"{name}.orders", f"{name}.jobs"
        self.metrics = Metrics()
        self.claims = FilesystemClaimCheckStore(folder / "claims")
        self.codec = ClaimCheckCodec(JsonCodec(), self.claims, threshold=THRESHOLD)
        self._path = folder / "demo.db"
        database = f"sqlite:///{self._path}"
        create_schema(database)
        self.ids, self.outbox = SqlIdempotencyStore(database), SqlOutboxStore(database)
        self._lock = threading.Lock()
        self._seen: defaultdict[str, list[Any]] = defaultdict(list)

    @property
    def queues(self) -> tuple[str, ...]:
        """Everything to be deleted."""
        own = (self.documents, self.payments, self.orders, self.jobs)
        return tuple(q for each in own for q in (each, dead_letter_queue(each), parked_queue(each)))

    def topology(self) -> Topology:
        made = Topology()
        for queue in (self.documents, self.payments, self.orders, self.jobs):
            made += Topology().queue(queue, dead_letter=True)
        return made

    def handled(self, queue: str) -> list[Any]:
        """What handlers of a queue were given, in their order."""
        with self._lock:
            return list(self._seen[queue])

    def handler(self, queue: str) -> Any:
        """A handler that notes what it is given."""

        def handle(message: Message) -> None:
            with self._lock:
                self._seen[queue].append(message.payload)

        return handle

    @property
    def settled_payments(self) -> int:
        """Messages of payments that were acknowledged."""
        return self.metrics.total("acemq.consume.total", queue=self.payments, outcome="acked")

    def take_orders(self, mq: Any) -> None:
        """Takes orders: each is one transaction with its message, and some are undone."""
        with closing(sqlite3.connect(self._path, timeout=30)) as tx:
            tx.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY)")
            for number in range(1, ORDERS + 1):
                try:
                    self._take_order(mq, number, tx)
                except Declined:
                    continue

    def _take_order(self, mq: Any, number: int, tx: sqlite3.Connection) -> None:
        customer = f"customer-{number % CUSTOMERS}"
        order = {"order": number, "customer": customer}
        told = record(mq, "", self.orders, order, ordering_key=customer)
        with tx:
            tx.execute("BEGIN IMMEDIATE")
            tx.execute("INSERT INTO orders VALUES (?)", (number,))
            self.outbox.add(told, connection=tx)
            if number % _UNDONE_EVERY == 0:
                raise Declined(f"order {number}")

    def committed(self) -> list[int]:
        """The orders that are in the database."""
        with closing(sqlite3.connect(self._path, timeout=30)) as look:
            return [number for (number,) in look.execute("SELECT number FROM orders")]

    def close(self) -> None:
        """Lets go of the database."""
        self.ids.close()
        self.outbox.close()
