"""What ``config({...})`` of a log takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from acemq_amqp.durations import seconds
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog.choices import checked, positive
from acemq_amqp.retention import StreamRetention

OnGap = Literal["raise", "skip"]

_RETENTION: Final = ("max_age", "max_bytes", "segment_bytes")


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How a log is declared, and how groups read it.

    :ivar streams: streams that it is spread over, and so how many readers of a group can work side
        by side; None takes it as it is, one where it is made
    :ivar lease_time: seconds that a reader may go without a sign of life; the store's by default
    :ivar retry_limit: how often a message that failed is tried again, after its first attempt
    :ivar retry_delay: seconds before it is
    :ivar on_gap: what to do where retention removed what was not read
    :ivar dead_letters: whether what failed too often goes to ``{log}.dlq``, or ends its reader
    :ivar max_open_lanes: lanes of a stream that may be ahead of the others when they are popped
    """

    streams: int | None = None
    retention: StreamRetention | None = None
    lease_time: float | None = None
    retry_limit: int = 3
    retry_delay: float = 1.0
    on_gap: OnGap = "raise"
    dead_letters: bool = True
    max_open_lanes: int = 10_000


_KNOWN: Final = (
    *_RETENTION,
    *("streams", "lease_time", "retry_limit", "retry_delay", "on_gap", "dead_letters"),
    "max_open_lanes",
)


def settings_of(options: object) -> LogSettings:
    """Settings from what a user gave.

    :raises ConfigurationError: an unknown name, or a value that cannot be
    """
    given = checked(options, _KNOWN, "config() of a log")
    made: dict[str, Any] = {}
    limits = {name: given.pop(name) for name in _RETENTION if name in given}
    if limits:
        made["retention"] = StreamRetention(**limits)
    for name, value in given.items():
        made[name] = _READ[name](value, f"{name} of a log")
    return LogSettings(**made)


def _count(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigurationError(f"acemq: {what} is {value!r}: give a whole number of 0 or more")
    return value


def _lease(value: Any, what: str) -> float:
    lease = seconds(value, what)
    if lease < 1:
        raise ConfigurationError(f"acemq: {what} is {value!r}: give 1 second or more")
    return lease


def _gap(value: object, what: str) -> object:
    if value not in ("raise", "skip"):
        raise ConfigurationError(f"acemq: {what} is {value!r}: give 'raise' or 'skip'")
    return value


def _flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"acemq: {what} is {value!r}: give True or False")
    return value


_READ: Final = {
    "streams": positive,
    "lease_time": _lease,
    "retry_limit": _count,
    "retry_delay": seconds,
    "on_gap": _gap,
    "dead_letters": _flag,
    "max_open_lanes": positive,
}
