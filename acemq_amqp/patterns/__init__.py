"""Patterns over a connection, each in a file of its own.

Names that need a store which is more than memory come from ``acemq_stores``, and are handed on
here when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from acemq_amqp.patterns.browsing import browse
from acemq_amqp.patterns.claim import Claim, TransactionEnded
from acemq_amqp.patterns.claim_check import (
    DEFAULT_THRESHOLD,
    ClaimCheckCodec,
    ClaimCheckStore,
    InMemoryClaimCheckStore,
    claim_key_of,
    is_claim_check,
)
from acemq_amqp.patterns.consumer_counters import ConsumerCounters
from acemq_amqp.patterns.consumer_group import ConsumerGroup
from acemq_amqp.patterns.database import DbConnection, DbCursor
from acemq_amqp.patterns.idempotency import IdempotencyStore, LeasingStore, idempotent
from acemq_amqp.patterns.inbox import transactional
from acemq_amqp.patterns.memory_idempotency import InMemoryIdempotencyStore
from acemq_amqp.patterns.memory_outbox import InMemoryOutboxStore
from acemq_amqp.patterns.outbox import (
    Claimed,
    OutboxRecord,
    OutboxRow,
    OutboxStatus,
    OutboxStore,
    record,
)
from acemq_amqp.patterns.outbox_relay import OutboxRelay
from acemq_amqp.patterns.replay_plan import ReplayResult, ReplayStopped
from acemq_amqp.patterns.replaying import replay
from acemq_amqp.retention import StreamRetention

if TYPE_CHECKING:
    from acemq_stores import FilesystemClaimCheckStore

#: Kept by ``acemq_stores``, which builds on this package and not the reverse.
_HANDED_ON = frozenset({"FilesystemClaimCheckStore"})

__all__ = [
    "DEFAULT_THRESHOLD",
    "Claim",
    "ClaimCheckCodec",
    "ClaimCheckStore",
    "Claimed",
    "ConsumerCounters",
    "ConsumerGroup",
    "DbConnection",
    "DbCursor",
    "FilesystemClaimCheckStore",
    "IdempotencyStore",
    "InMemoryClaimCheckStore",
    "InMemoryIdempotencyStore",
    "InMemoryOutboxStore",
    "LeasingStore",
    "OutboxRecord",
    "OutboxRelay",
    "OutboxRow",
    "OutboxStatus",
    "OutboxStore",
    "ReplayResult",
    "ReplayStopped",
    "StreamRetention",
    "TransactionEnded",
    "browse",
    "claim_key_of",
    "idempotent",
    "is_claim_check",
    "record",
    "replay",
    "transactional",
]


def handed_on(name: str, module: str = __name__) -> Any:
    """A name of ``acemq_stores`` that is looked for in ``module``."""
    if name in _HANDED_ON:
        return getattr(import_module("acemq_stores"), name)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


def __getattr__(name: str) -> Any:
    return handed_on(name)
