"""What a log's messages carry beside payload and envelope, written and read.

Three headers make a message one of a log: its lane, the moment it was pushed, and, on what the
library itself writes, a mark. A closed window has its bounds in five more, and in a sixth what it
corrects. Writing is strict; reading takes whatever stands in a stream, since anybody may publish to
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final, Literal, TypeAlias, cast

from acemq_amqp import headers as names
from acemq_amqp.core.ports import Arrival
from acemq_amqp.core.reading import id_of, offset_of
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.headers import read_number, read_text

#: The lane of messages that name none.
DEFAULT_LANE: Final = "Default"
LONGEST_LANE: Final = 255
#: What brokers from 3.13 on filter by.
FILTER_VALUE: Final = "x-stream-filter-value"

Mark: TypeAlias = Literal["", "genesis", "mark"]

_KEY: Final = names.LOG_WINDOW_PREFIX + "key"
_START: Final = names.LOG_WINDOW_PREFIX + "start"
_END: Final = names.LOG_WINDOW_PREFIX + "end"
_REVISION: Final = names.LOG_WINDOW_PREFIX + "revision"
_ID: Final = names.LOG_WINDOW_PREFIX + "id"
#: Ids with a comma between them; not there where there are none.
_REPLACES: Final = names.LOG_WINDOW_PREFIX + "replaces"
#: So many ids fit into a frame as brokers take them by default.
_MOST_REPLACED: Final = 1000


@dataclass(frozen=True, slots=True)
class WindowInfo:
    """Which window a message is the result of.

    :ivar start: seconds since the epoch, as ``end``
    :ivar revision: 0 for the first result, one more for each that corrects it
    :ivar id: the same whenever and wherever this result is seen
    :ivar replaces: ids of results told before that this one stands for, the last 1000 of them; none
        with revision 0, unless sessions became one
    """

    key: str
    start: float
    end: float
    revision: int
    id: str
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A message of a log as it was read.

    :ivar id: the message's id; ``""`` where it has none
    :ivar time: when it was pushed, by the clock of who pushed it, in seconds; 0.0 where that was
        not told
    :ivar mark: ``""`` for a message; else the library's own, which nobody handles or counts
    """

    stream: str
    offset: int
    id: str
    lane: str
    time: float
    mark: Mark
    arrival: Arrival = field(repr=False, compare=False)
    window: WindowInfo | None = None


def record_of(stream: str, arrival: Arrival) -> LogRecord:
    """What arrived from a stream, as a record. Never raises, whoever wrote it."""
    values = arrival.properties.headers.values()
    mark = values.get(names.LOG_MARK)
    return LogRecord(
        stream,
        offset_of(arrival),
        id_of(arrival),
        _lane(values.get(names.LOG_LANE)),
        max(0, read_number(values.get(names.LOG_TIME), 0)) / 1000,
        cast(Mark, mark) if mark in ("genesis", "mark") else "",
        arrival,
        _window(values) if _ID in values else None,
    )


def checked_lane(lane: object) -> str:
    """A lane, as given.

    :raises ConfigurationError: not text of 1 to 255 bytes of UTF-8, or with NUL in it
    """
    if isinstance(lane, str) and _is_lane(lane):
        return lane
    raise ConfigurationError(
        f"acemq: {lane!r:.80} cannot be a lane: give text of 1 to {LONGEST_LANE} bytes of UTF-8, "
        "without NUL"
    )


def lane_headers(lane: str, now: float) -> dict[str, Any]:
    """The headers of a push.

    :param now: seconds since the epoch
    """
    return {names.LOG_LANE: lane, FILTER_VALUE: lane, names.LOG_TIME: int(now * 1000)}


def mark_headers(mark: Mark, now: float) -> dict[str, Any]:
    """The headers of what the library itself writes, which is of no lane."""
    return {names.LOG_MARK: mark, names.LOG_TIME: int(now * 1000)}


def window_headers(window: WindowInfo) -> dict[str, Any]:
    """The headers of a closed window. Bounds travel as they are, without rounding."""
    told: dict[str, Any] = {
        _KEY: window.key,
        _START: float(window.start),
        _END: float(window.end),
        _REVISION: window.revision,
        _ID: window.id,
    }
    if window.replaces:
        told[_REPLACES] = ",".join(window.replaces[-_MOST_REPLACED:])
    return told


def _is_lane(lane: str) -> bool:
    try:
        return 0 < len(lane.encode()) <= LONGEST_LANE and "\0" not in lane
    except UnicodeEncodeError:
        return False


def _lane(value: object) -> str:
    return value if isinstance(value, str) and _is_lane(value) else DEFAULT_LANE


def _window(values: Mapping[str, Any]) -> WindowInfo:
    return WindowInfo(
        read_text(values.get(_KEY)),
        _moment(values.get(_START)),
        _moment(values.get(_END)),
        read_number(values.get(_REVISION), 0, least=0),
        read_text(values[_ID]),
        tuple(filter(None, read_text(values.get(_REPLACES)).split(","))),
    )


def _moment(value: object) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(cast(float, value)) if number and isfinite(cast(float, value)) else 0.0
