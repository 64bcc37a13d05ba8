"""Windows between the ticks of a cron expression, in a time zone, daylight saving included.

``0 0 * * *`` in ``Europe/Paris`` is a day of 23, 24 or 25 hours. Ticks are counted by cronsim (the
extra ``cron``): a time of day that a clock skips ticks when the clock has gone on, and one that
it shows twice ticks the first time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from importlib import import_module
from typing import Any, ClassVar, Final
from zoneinfo import ZoneInfo, available_timezones

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog.choices import unknown

#: How far back the tick before a moment is looked for; the last is 32 years.
_SPANS: Final = tuple(timedelta(minutes=8**step) for step in range(9))

_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)

#: For how many windows the bounds are remembered.
_REMEMBERED: Final = 64


@dataclass(frozen=True, slots=True)
class Calendar:
    """Windows from each tick of a cron expression to the next: a moment is in exactly one.

    :param cron: five fields (minute, hour, day of month, month, day of week), or six with seconds
        first
    :param zone: name of a time zone, such as ``Europe/Paris``
    :raises ConfigurationError: cronsim is not installed, an expression that is none or that never
        ticks, or an unknown zone
    """

    cron: str
    zone: str = "UTC"
    merges: ClassVar[bool] = False
    _zone: Any = field(init=False, repr=False, compare=False)
    _known: list[tuple[float, float]] = field(
        init=False, repr=False, compare=False, default_factory=list
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "_zone", _zone(self.zone))
        if not isinstance(self.cron, str):
            raise ConfigurationError(
                f"acemq: a calendar window wants a cron expression, not a "
                f"{type(self.cron).__name__}"
            )
        # What is wrong with an expression is found when the query is built.
        self._bounds(0.0)

    def assign(self, time: float) -> tuple[tuple[float, float], ...]:
        """The window (start, end) that holds a moment, in seconds since the epoch."""
        for window in self._known:
            if window[0] <= time < window[1]:
                return (window,)
        window = self._bounds(time)
        self._known[_REMEMBERED - 1 :] = []
        self._known.insert(0, window)
        return (window,)

    def shape(self) -> dict[str, Any]:
        """The kind and what it is of, as JSON has them."""
        return {"window": "calendar", "cron": " ".join(self.cron.split()), "zone": self.zone}

    def _bounds(self, time: float) -> tuple[float, float]:
        for span in _SPANS:
            start = None
            for tick in self._ticks(time, span):
                if tick > time:
                    if start is None:
                        break
                    return start, tick
                start = tick
        raise ConfigurationError(
            f"acemq: the cron expression {self.cron!r} never ticks: give one that does"
        )

    def _ticks(self, time: float, span: timedelta) -> Iterator[float]:
        """Ticks from a whole span before a moment on, going by the UTC, as no clock is put."""
        simulator = _cronsim()
        try:
            for tick in simulator.CronSim(self.cron, self._begin(time, span)):
                yield tick.timestamp()
        except simulator.CronSimError as error:
            raise ConfigurationError(
                f"acemq: {self.cron!r} is no cron expression ({error}): give minute, hour, day of "
                "month, month and day of week, such as '0 0 * * *'"
            ) from error

    def _begin(self, time: float, span: timedelta) -> datetime:
        """Where ticks are counted from, for the same ticks wherever that is.

        Where a clock is put by half an hour, as on Lord Howe, cronsim gives others by where it
        begins on that day; so it begins before a midnight, at which all its ways meet.
        """
        begin = datetime.fromtimestamp(time, UTC) - span
        wall = begin.astimezone(self._zone).replace(second=0, microsecond=0, fold=0)
        if span < _DAY and not self._odd(begin - _DAY, begin + span + _DAY):
            return wall
        return wall.replace(hour=0, minute=0) - timedelta(minutes=1)

    def _odd(self, begin: datetime, end: datetime) -> bool:
        """Whether a clock is put in between, by other than whole hours."""
        one, other = (each.astimezone(self._zone).utcoffset() for each in (begin, end))
        return bool(one is not None and other is not None and (other - one) % _HOUR)


def _zone(name: str) -> ZoneInfo | timezone:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except Exception as error:
        raise unknown(name, available_timezones(), "a calendar window's zone") from error


def _cronsim() -> Any:
    try:
        return import_module("cronsim")
    except ImportError as error:
        raise ConfigurationError(
            "acemq: calendar windows need cronsim, which is not installed: pip install "
            "'acemq-amqp[cron]'"
        ) from error
