"""Where a group begins, and where a seek goes: read once, from what a user gave.

Times are aware: one without a zone would be taken for UTC somewhere, and skip or repeat hours.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog.choices import checked
from acemq_amqp.eventlog.records import checked_lane
from acemq_amqp.offsets import Offset


@dataclass(frozen=True, slots=True)
class Moment:
    """The first message that was published then, or later; seconds since the epoch."""

    at: float


@dataclass(frozen=True, slots=True)
class Back:
    """So many messages before where the group stands."""

    count: int


Mode: TypeAlias = Literal["all", "new"] | Moment | int
Target: TypeAlias = Literal["first", "next"] | Moment | Back | int

_SEEKS: Final = ("timestamp", "offset", "to", "back")
#: Clocks of publishers may be ahead by so much.
_AHEAD: Final = 60.0


def mode_of(given: object, now: float) -> Mode:
    """Where a group that does not exist yet begins.

    :raises ConfigurationError: not ``"all"``, ``"new"``, an aware time or an offset
    """
    if given == "all":
        return "all"
    if given == "new":
        return "new"
    if isinstance(given, Offset):
        return given.value
    if isinstance(given, int) and not isinstance(given, bool):
        return _offset(given, "a subscription mode")
    if isinstance(given, datetime) or (isinstance(given, str) and given[:1].isdigit()):
        return moment_of(given, "a subscription mode", now)
    raise ConfigurationError(
        f"acemq: a group cannot begin at {given!r}: give 'all', 'new', an offset, or a time with "
        "its zone"
    )


def target_of(given: object, now: float) -> tuple[Target, str | None, bool]:
    """Where a seek goes, the lane it is for (None: all), and whether it is only asked about.

    :raises ConfigurationError: unknown or contradicting options, a time without a zone
    """
    options = checked(given, (*_SEEKS, "partition", "dry_run"), "a seek")
    wanted = [name for name in _SEEKS if name in options]
    if len(wanted) != 1:
        raise ConfigurationError(
            f"acemq: a seek goes to one place, and {' and '.join(wanted) or 'none'} was given: "
            "give timestamp, offset, to ('first' or 'next') or back"
        )
    name = wanted[0]
    lane, dry = options.get("partition"), options.get("dry_run", False)
    if not isinstance(dry, bool):
        raise ConfigurationError(f"acemq: dry_run of a seek is {dry!r}: give True or False")
    return _target(name, options[name], now), None if lane is None else checked_lane(lane), dry


def _target(name: str, value: Any, now: float) -> Target:
    if name == "timestamp":
        return moment_of(value, "the timestamp of a seek", now)
    if name == "to":
        if value == "first":
            return "first"
        if value == "next":
            return "next"
        raise ConfigurationError(f"acemq: a seek to {value!r}: give 'first' or 'next'")
    if isinstance(value, Offset):
        value = value.value
    number = _offset(value, f"{name} of a seek")
    return Back(number) if name == "back" else number


def moment_of(given: object, what: str, now: float) -> Moment:
    """A time that says its zone, and that has been.

    :raises ConfigurationError: naive, in the future, or no time
    """
    when = given
    if isinstance(given, str):
        try:
            when = datetime.fromisoformat(given)
        except ValueError:
            raise ConfigurationError(
                f"acemq: {what} is {given!r}: give an ISO 8601 time with its zone"
            ) from None
    if not isinstance(when, datetime):
        raise ConfigurationError(
            f"acemq: {what} is a {type(given).__name__}: give a datetime with its zone, or an ISO "
            "8601 text"
        )
    if when.utcoffset() is None:
        raise ConfigurationError(
            f"acemq: {what} is {given!s}, which names no zone: it could be any of 38 hours. Give "
            "an aware one, such as datetime.now(timezone.utc)"
        )
    if when.timestamp() > now + _AHEAD:
        raise ConfigurationError(
            f"acemq: {what} is {given!s}, which has not come yet: use 'next' or 'new' for what is "
            "pushed from now on"
        )
    return Moment(when.timestamp())


def _offset(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigurationError(f"acemq: {what} is {value!r}: give a whole number of 0 or more")
    return value
