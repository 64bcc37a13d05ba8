"""Event time: read from a payload by the user's function, and checked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeAlias

from acemq_amqp.errors import MessageError

TimeOf: TypeAlias = Callable[[Any], datetime | float | int]

#: 1900 to 2999. Milliseconds taken for seconds fall outside, for every moment since 1971.
_FIRST: Final = -2_208_988_800.0
_LAST: Final = 32_503_680_000.0


def moment(given: object) -> float:
    """Seconds since the epoch, to the millisecond.

    :param given: an aware datetime, or a number of seconds since the epoch
    :raises MessageError: a naive datetime, another type, or a number outside 1900 to 2999
    """
    if isinstance(given, datetime):
        if given.utcoffset() is None:
            raise MessageError(
                f"acemq: the event time {given!s} names no zone: give an aware datetime, or seconds"
            )
        given = given.timestamp()
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise MessageError(
            f"acemq: the event time is of the type {type(given).__name__}: give an aware datetime, "
            "or seconds since the epoch"
        )
    if not _FIRST <= given < _LAST:
        raise MessageError(
            f"acemq: the event time {given!r} is not of the years 1900 to 2999: give seconds since "
            "the epoch, not milliseconds"
        )
    return round(float(given), 3)
