"""Event logs in the blocking flavour: the names of :mod:`acemq_amqp.eventlog`, no ``await``."""

from acemq_amqp.blocking.eventlog.event_log import Admin, EventLog
from acemq_amqp.blocking.eventlog.queue import LogQueue, Reader
from acemq_amqp.eventlog.errors import LeaseLost, LogReplaced, RetentionPassed
from acemq_amqp.eventlog.messages import LogMessage
from acemq_amqp.eventlog.moving import Lag, Moved
from acemq_amqp.eventlog.records import WindowInfo
from acemq_amqp.eventlog.store import LogStore
from acemq_amqp.offsets import Offset

__all__ = [
    "Admin",
    "EventLog",
    "Lag",
    "LeaseLost",
    "LogMessage",
    "LogQueue",
    "LogReplaced",
    "LogStore",
    "Moved",
    "Offset",
    "Reader",
    "RetentionPassed",
    "WindowInfo",
]
