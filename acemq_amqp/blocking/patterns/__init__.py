"""The patterns in the blocking flavour: the same names as :mod:`acemq_amqp.patterns`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acemq_amqp import patterns
from acemq_amqp.blocking.patterns.browsing import browse
from acemq_amqp.blocking.patterns.consumer_group import ConsumerGroup
from acemq_amqp.blocking.patterns.outbox_relay import OutboxRelay
from acemq_amqp.blocking.patterns.replaying import replay
from acemq_amqp.patterns import (
    DEFAULT_THRESHOLD,
    Claim,
    ClaimCheckCodec,
    ClaimCheckStore,
    Claimed,
    ConsumerCounters,
    DbConnection,
    DbCursor,
    IdempotencyStore,
    InMemoryClaimCheckStore,
    InMemoryIdempotencyStore,
    InMemoryOutboxStore,
    LeasingStore,
    OutboxRecord,
    OutboxRow,
    OutboxStatus,
    OutboxStore,
    ReplayResult,
    ReplayStopped,
    StreamRetention,
    TransactionEnded,
    claim_key_of,
    idempotent,
    is_claim_check,
    record,
    transactional,
)

if TYPE_CHECKING:
    from acemq_stores import FilesystemClaimCheckStore

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


def __getattr__(name: str) -> Any:
    return patterns.handed_on(name, __name__)
