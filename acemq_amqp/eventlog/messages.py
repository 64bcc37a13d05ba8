"""A message of a log as its readers see it: a value, and a mapping of the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from acemq_amqp.envelope import Envelope
from acemq_amqp.eventlog.records import LogRecord, WindowInfo
from acemq_amqp.message import Message

_FIELDS: Final = (
    *("data", "partition", "id", "offset", "time", "queue", "stream", "group", "attempt"),
    *("window", "headers"),
)


class LogMessage(Mapping[str, Any]):
    """One message of a log. Read-only; ``message["data"]`` and ``message.data`` are the same.

    :ivar data: the decoded payload
    :ivar partition: its lane
    :ivar queue: the log it is of, and ``stream`` the stream that keeps it, at ``offset``
    :ivar group: who it was read for; acknowledging it needs no other name
    :ivar attempt: 1 the first time it is handled, one more after each failure
    :ivar record: as it was read
    :ivar token: under which lease it was popped; ``""`` where its stream is held
    :ivar window: bounds, key and revision, where it is a closed window; else None
    """

    __slots__ = ("_message", "attempt", "data", "group", "queue", "record", "token")

    def __init__(
        self,
        record: LogRecord,
        data: Any,
        queue: str,
        group: str,
        attempt: int = 1,
        token: str = "",
    ) -> None:
        self.record = record
        self.data = data
        self.token = token
        self._message: Message | None = None
        self.queue = queue
        self.group = group
        self.attempt = attempt

    @property
    def partition(self) -> str:
        """Its lane."""
        return self.record.lane

    @property
    def id(self) -> str:
        """Its id, the same whenever it is delivered."""
        return self.record.id

    @property
    def offset(self) -> int:
        """Its place in its stream."""
        return self.record.offset

    @property
    def stream(self) -> str:
        """The stream that keeps it."""
        return self.record.stream

    @property
    def time(self) -> datetime | None:
        """When it was pushed, by the clock of who pushed it; None where that was not told."""
        at = self.record.time
        return datetime.fromtimestamp(at, UTC) if at else None

    @property
    def window(self) -> WindowInfo | None:
        """Bounds, key and revision of a closed window; else None."""
        return self.record.window

    @property
    def headers(self) -> Mapping[str, Any]:
        """The application's headers."""
        return self._as_message().headers

    @property
    def envelope(self) -> Envelope:
        """What the message says of itself."""
        return self._as_message().envelope

    @property
    def body(self) -> bytes:
        """The body as it came."""
        return self.record.arrival.body

    def _as_message(self) -> Message:
        if self._message is None:
            self._message = Message.received(self.data, self.record.arrival)
        return self._message

    def __getitem__(self, name: str) -> Any:
        if name in _FIELDS:
            return getattr(self, name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_FIELDS)

    def __len__(self) -> int:
        return len(_FIELDS)

    def __repr__(self) -> str:
        return f"LogMessage({self.stream}@{self.offset}, {self.partition!r}, {self.data!r:.60})"
