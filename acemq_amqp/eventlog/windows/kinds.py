"""How time is cut into windows, apart from the calendar: tumbling, sliding, session.

Bounds are counted in whole milliseconds, so that the same window has the same bounds (and so the
same id) whatever float a moment came as. A window holds its start and not its end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from acemq_amqp.durations import Duration, milliseconds, seconds
from acemq_amqp.errors import ConfigurationError

#: In how many windows one event may count.
_OVERLAP: Final = 1000


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Windows of one size, side by side from the epoch on: each moment is in exactly one.

    :param size: whole milliseconds, 1 or more, as a timedelta or in seconds
    :raises ConfigurationError: a size that cannot be
    """

    size: Duration
    merges: ClassVar[bool] = False
    _ms: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ms", _span(self.size, "size of a tumbling window"))

    def assign(self, time: float) -> tuple[tuple[float, float], ...]:
        """The window (start, end) that holds a moment, in seconds since the epoch."""
        start = round(time * 1000) // self._ms * self._ms
        return ((start / 1000, (start + self._ms) / 1000),)

    def shape(self) -> dict[str, Any]:
        """The kind and its numbers, as JSON has them."""
        return {"window": "tumbling", "size_ms": self._ms}


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of one size that begin every so often: a moment is in several, or in one.

    :param size: whole milliseconds, as a timedelta or in seconds
    :param every: the same; not more than the size, as moments between would be in no window
    :raises ConfigurationError: a value that cannot be, or more than 1000 windows for one moment
    """

    size: Duration
    every: Duration
    merges: ClassVar[bool] = False
    _size: int = field(init=False, repr=False, compare=False)
    _every: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        size = _span(self.size, "size of a sliding window")
        every = _span(self.every, "every of a sliding window")
        if every > size:
            raise ConfigurationError(
                f"acemq: a sliding window of {size} ms begins every {every} ms: events between "
                "two would count in none. Give an every of at most the size"
            )
        if size > _OVERLAP * every:
            raise ConfigurationError(
                f"acemq: a sliding window of {size} ms begins every {every} ms: each event would "
                f"count in more than {_OVERLAP} windows. Give a larger every"
            )
        object.__setattr__(self, "_size", size)
        object.__setattr__(self, "_every", every)

    def assign(self, time: float) -> tuple[tuple[float, float], ...]:
        """The windows (start, end) that hold a moment, in seconds since the epoch."""
        at = round(time * 1000)
        size, every = self._size, self._every
        first = ((at - size) // every + 1) * every
        return tuple((start / 1000, (start + size) / 1000) for start in range(first, at + 1, every))

    def shape(self) -> dict[str, Any]:
        """The kind and its numbers, as JSON has them."""
        return {"window": "sliding", "size_ms": self._size, "every_ms": self._every}


@dataclass(frozen=True, slots=True)
class Session:
    """Windows that last while events of a key come less than a gap apart.

    A session begins with its first event and ends a gap after its last.

    :param gap: whole milliseconds, 1 or more, as a timedelta or in seconds
    :raises ConfigurationError: a gap that cannot be
    """

    gap: Duration
    merges: ClassVar[bool] = True
    _ms: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ms", _span(self.gap, "gap of a session window"))

    def assign(self, time: float) -> tuple[tuple[float, float], ...]:
        """The session of one event alone; those that overlap are one."""
        start = round(time * 1000)
        return ((start / 1000, (start + self._ms) / 1000),)

    def shape(self) -> dict[str, Any]:
        """The kind and its numbers, as JSON has them."""
        return {"window": "session", "gap_ms": self._ms}


def _span(given: Duration, what: str) -> int:
    """Whole milliseconds, 1 or more."""
    whole = milliseconds(given, what)
    if whole < 1 or abs(whole - seconds(given, what) * 1000) > 1e-3:
        raise ConfigurationError(
            f"acemq: {what} is {given}: give whole milliseconds, 1 or more, as a timedelta or in "
            "seconds"
        )
    return whole
