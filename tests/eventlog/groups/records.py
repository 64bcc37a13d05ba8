"""Records of a stream, made up."""

from __future__ import annotations

from typing import Any, cast

from acemq_amqp.eventlog.messages import LogMessage
from acemq_amqp.eventlog.records import LogRecord, Mark
from acemq_amqp.eventlog.store import Fence, LaneRow, Position

FENCE = Fence("g", "s", 1)


def record(offset: int, lane: str = "a", mark: Mark = "") -> LogRecord:
    """A record whose id tells its offset."""
    return LogRecord("s", offset, f"m{offset}", lane, 0.0, mark, cast(Any, None))


def message(offset: int, lane: str = "a", token: str = "t") -> LogMessage:
    """A message that was popped."""
    return LogMessage(record(offset, lane), offset, "log", "g", 1, token)


def position(next: int, *rows: LaneRow) -> Position:
    """Where a group stands."""
    return Position(FENCE, next, lanes=rows)
