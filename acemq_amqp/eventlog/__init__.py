"""Event logs: what was pushed stays, and reading is a cursor for each group.

A log is one RabbitMQ stream or several. Its messages are in **lanes**, each in order. A **group**
is a named cursor; groups read the same messages independently, begin where they say, and can be
moved. Positions are kept in a database of the user's own.
"""

from acemq_amqp.eventlog.errors import (
    GivenUp,
    LeaseLost,
    LogReplaced,
    QueryFailed,
    QueryReset,
    RetentionPassed,
)
from acemq_amqp.eventlog.event_log import Admin, EventLog
from acemq_amqp.eventlog.memory_store import InMemoryLogStore
from acemq_amqp.eventlog.messages import LogMessage
from acemq_amqp.eventlog.moving import GroupStatus, Lag, Moved
from acemq_amqp.eventlog.queue import LogQueue, Reader
from acemq_amqp.eventlog.records import WindowInfo
from acemq_amqp.eventlog.sinks import Output
from acemq_amqp.eventlog.store import LogStore
from acemq_amqp.eventlog.stream import RunningStream, Stream
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
