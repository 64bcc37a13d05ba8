"""Event logs in the blocking flavour: the names of :mod:`acemq_amqp.eventlog`, no ``await``."""

from acemq_amqp.blocking.eventlog.event_log import Admin, EventLog
from acemq_amqp.blocking.eventlog.queue import LogQueue, Reader
from acemq_amqp.blocking.eventlog.stream import RunningStream, Stream
from acemq_amqp.eventlog.errors import (
    GivenUp,
    LeaseLost,
    LogReplaced,
    QueryFailed,
    QueryReset,
    RetentionPassed,
)
from acemq_amqp.eventlog.memory_store import InMemoryLogStore
from acemq_amqp.eventlog.messages import LogMessage
from acemq_amqp.eventlog.moving import GroupStatus, Lag, Moved
from acemq_amqp.eventlog.records import WindowInfo
from acemq_amqp.eventlog.sinks import Output
from acemq_amqp.eventlog.store import LogStore
from acemq_amqp.eventlog.streaming import StreamStatus
from acemq_amqp.eventlog.windows.aggregates import (
    avg_of,
    count_of,
    fold,
    max_of,
    min_of,
    sum_of,
)
from acemq_amqp.offsets import Offset

__all__ = [
    "Admin",
    "EventLog",
    "GivenUp",
    "GroupStatus",
    "InMemoryLogStore",
    "Lag",
    "LeaseLost",
    "LogMessage",
    "LogQueue",
    "LogReplaced",
    "LogStore",
    "Moved",
    "Offset",
    "Output",
    "QueryFailed",
    "QueryReset",
    "Reader",
    "RetentionPassed",
    "RunningStream",
    "Stream",
    "StreamStatus",
    "WindowInfo",
    "avg_of",
    "count_of",
    "fold",
    "max_of",
    "min_of",
    "sum_of",
]
