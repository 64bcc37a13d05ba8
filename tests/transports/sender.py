"""A publish ledger under test, and what it told of each message."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from acemq_amqp.core.ports import Outcome
from acemq_amqp.transports.wire.publishing import Entry, PublishLedger
from tests.transports.wire_bytes import outgoing, publishes

ALL = 1 << 30


class Sender:
    """A ledger, and what was told of each message."""

    def __init__(self, frame_max: int = 4096) -> None:
        self.ledger = PublishLedger(1, frame_max, nullcontext())
        self.told: dict[str, list[Outcome]] = {}
        self.entries: dict[str, Entry] = {}

    def send(self, name: str, **fields: Any) -> Entry:
        """Submits a message under its own name as id, unless told another."""
        self.told[name] = []
        message = outgoing(fields.pop("message_id", name), **fields)
        self.entries[name] = self.ledger.submit(message, self.told[name].append)
        return self.entries[name]

    def flies(self, *names: str) -> None:
        """Submits messages and writes them."""
        for name in names:
            self.send(name)
        self.write()

    def write(self) -> list[str]:
        """Collects everything; the ids written."""
        return [name for _, name in publishes(self.ledger.collect(ALL))]
