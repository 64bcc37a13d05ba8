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
    :ivar window: bounds, key and revision, where it is a closed window; else None
    """

    __slots__ = ("_message", "_record", "_token", "attempt", "data", "group", "queue")

    def __init__(
        self,
        record: LogRecord,
        data: Any,
        *,
        queue: str,
        group: str,
        attempt: int = 1,
        token: str = "",
    ) -> None:
        self._record = record
        self._message = Message.received(data, record.arrival)
        self._token = token
        self.data = data
        self.queue = queue
        self.group = group
        self.attempt = attempt

    @property
    def partition(self) -> str:
        """Its lane."""
        return self._record.lane

    @property
    def id(self) -> str:
        """Its id, the same whenever it is delivered."""
        return self._record.id

    @property
    def offset(self) -> int:
        """Its place in its stream."""
        return self._record.offset

    @property
    def stream(self) -> str:
        """The stream that keeps it."""
        return self._record.stream

    @property
    def time(self) -> datetime | None:
        """When it was pushed, by the clock of who pushed it; None where that was not told."""
        at = self._record.time
        return datetime.fromtimestamp(at, UTC) if at else None

    @property
    def window(self) -> WindowInfo | None:
        """Bounds, key and revision of a closed window; else None."""
        return self._record.window

    @property
    def headers(self) -> Mapping[str, Any]:
        """The application's headers."""
        return self._message.headers

    @property
    def envelope(self) -> Envelope:
        """What the message says of itself."""
        return self._message.envelope

    @property
    def body(self) -> bytes:
        """The body as it came."""
        return self._record.arrival.body

    @property
    def record(self) -> LogRecord:
        """As it was read."""
        return self._record

    @property
    def token(self) -> str:
        """Under which lease it was popped; ``""`` where its stream is held."""
        return self._token

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
