"""Spans of time as they are given, counted and spelled.

A duration is a ``timedelta`` or a plain number of seconds. It is checked once, where
it is given, and is a float of seconds from there on. The wire counts in whole
milliseconds, and the names of rungs spell them.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TypeAlias

from acemq_amqp.errors import ConfigurationError, kind_of

Duration: TypeAlias = timedelta | float | int


def seconds(value: Duration, what: str) -> float:
    """A duration in seconds, finite and never negative.

    :param what: what the duration is for, named in the error
    :raises ConfigurationError: negative, not finite, or not a duration
    """
    if isinstance(value, timedelta):
        number = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = _finite(value, what)
    else:
        raise ConfigurationError(
            f"acemq: {what} is {kind_of(value)}: give a timedelta or a number of seconds"
        )
    if number < 0:
        raise ConfigurationError(f"acemq: {what} is negative ({value}): give 0 or more")
    return number


def milliseconds(value: Duration, what: str) -> int:
    """A duration rounded to whole milliseconds.

    :raises ConfigurationError: as :func:`seconds`
    """
    return round(seconds(value, what) * 1000)


def spelled(value: float) -> str:
    """Seconds as people and rung names write them: ``500ms``, ``90s``, ``5m``, ``2h``.

    Exact to the millisecond. The largest unit that divides the span is used, hours at most.
    """
    total = round(value * 1000)
    whole, rest = divmod(total, 1000)
    if rest:
        return f"{total}ms"
    if whole and whole % 3600 == 0:
        return f"{whole // 3600}h"
    if whole and whole % 60 == 0:
        return f"{whole // 60}m"
    return f"{whole}s"


def _finite(value: float, what: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ConfigurationError(f"acemq: {what} is not a finite number: give seconds, 0 or more")
    return number
