"""How much a stream keeps, as the arguments that declare it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from acemq_amqp.durations import Duration, milliseconds
from acemq_amqp.errors import ConfigurationError

_SPELLED: Final = re.compile(r"[1-9][0-9]*[YMDhms]")
_UNITS: Final = (("D", 86400), ("h", 3600), ("m", 60), ("s", 1))


@dataclass(frozen=True, slots=True)
class StreamRetention:
    """How much a stream keeps; whole segments are dropped once either limit is passed.

    :param max_age: a duration of whole seconds, or RabbitMQ's own spelling: ``7D``, ``90m``
    :param max_bytes: size of the whole stream
    :param segment_bytes: size of one segment
    :raises ConfigurationError: a limit that is not positive, or an age of broken seconds
    """

    max_age: Duration | str | None = None
    max_bytes: int | None = None
    segment_bytes: int | None = None

    def __post_init__(self) -> None:
        self.arguments()

    def arguments(self) -> dict[str, Any]:
        """The queue arguments that say so; a limit that is not set is left out."""
        limits = {
            "x-max-age": None if self.max_age is None else _spelled(self.max_age),
            "x-max-length-bytes": _size("max_bytes", self.max_bytes),
            "x-stream-max-segment-size-bytes": _size("segment_bytes", self.segment_bytes),
        }
        return {name: limit for name, limit in limits.items() if limit is not None}


def _spelled(age: Duration | str) -> str:
    if isinstance(age, str):
        if not _SPELLED.fullmatch(age):
            raise ConfigurationError(
                f"acemq: max_age {age!r} of a stream: give a duration, or a spelling such as 7D"
            )
        return age
    total, rest = divmod(milliseconds(age, "max_age of a stream"), 1000)
    if rest or not total:
        raise ConfigurationError(
            f"acemq: max_age of a stream is {timedelta(seconds=total, milliseconds=rest)}: give "
            "whole seconds, 1 or more"
        )
    return next(f"{total // size}{unit}" for unit, size in _UNITS if total % size == 0)


def _size(name: str, value: int | None) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigurationError(
            f"acemq: {name} of a stream is {value!r}: give a number of bytes, 1 or more"
        )
    return value
