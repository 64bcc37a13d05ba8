"""What a query's function may know besides the payload: its second argument, if it takes one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from acemq_amqp.eventlog.records import LogRecord, WindowInfo
from acemq_amqp.message import Message


@dataclass(frozen=True, slots=True)
class MessageContext:
    """Where a message stands."""

    record: LogRecord

    @property
    def lane(self) -> str:
        """The message's lane."""
        return self.record.lane

    @property
    def id(self) -> str:
        """The message's id."""
        return self.record.id

    @property
    def offset(self) -> int:
        """Its place in its stream."""
        return self.record.offset

    @property
    def time(self) -> datetime | None:
        """When it was pushed; None where that was not told."""
        at = self.record.time
        return datetime.fromtimestamp(at, UTC) if at else None

    @property
    def headers(self) -> Mapping[str, Any]:
        """The application's headers."""
        return Message.received(None, self.record.arrival).headers


@dataclass(frozen=True, slots=True)
class ResultContext:
    """Of which lane and window a result is."""

    lane: str
    window: WindowInfo
