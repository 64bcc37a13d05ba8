"""Where reading a stream begins, as a value that was checked before a broker sees it.

RabbitMQ takes whatever stands in ``x-stream-offset`` by its type on the wire: text of digits is
no offset, a float closes the connection, a number of seconds is taken for an offset, and a naive
time for UTC. So a beginning is one of these values and nothing else: :data:`First`,
:data:`Next`, :data:`Last`, :class:`Offset`, :class:`At`, :class:`Ago`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from acemq_amqp.errors import ConfigurationError

_MOST: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: Longer ago than there are streams.
_LONGEST: Final = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class Place:
    """A beginning that has a name: :data:`First`, :data:`Next` or :data:`Last`."""

    word: str

    def argument(self) -> str:
        """The value of ``x-stream-offset``."""
        return self.word


#: the oldest message that is still there
First: Final = Place("first")
#: the first message that is stored after the attach
Next: Final = Place("next")
#: the last chunk: one message, or some that were stored together
Last: Final = Place("last")


@dataclass(frozen=True, slots=True)
class Offset:
    """Exactly there; at the oldest message, where retention has passed it.

    :raises ConfigurationError: not a whole number of 0 or more
    """

    value: int

    def __post_init__(self) -> None:
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
            raise ConfigurationError(
                f"acemq: the offset of a stream is {value!r}: give a whole number of 0 or more; "
                "a moment is At(...)"
            )

    def argument(self) -> int:
        """The value of ``x-stream-offset``."""
        return int(self.value)


@dataclass(frozen=True, slots=True)
class At:
    """With the first chunk that the broker stored at a moment, or later.

    It is the broker's clock, and whole seconds and chunks: some messages before it come too.

    :raises ConfigurationError: no datetime, one without a time zone, or one before 1970
    """

    moment: datetime

    def __post_init__(self) -> None:
        if not isinstance(self.moment, datetime) or self.moment.utcoffset() is None:
            raise ConfigurationError(
                f"acemq: a stream cannot be read from {self.moment!r}: give an aware datetime, "
                "such as datetime.now(UTC)"
            )
        if self.moment < _EPOCH:
            raise ConfigurationError(
                f"acemq: a stream cannot be read from {self.moment}, which is before 1970: First "
                "is its beginning"
            )

    def argument(self) -> datetime:
        """The value of ``x-stream-offset``: the second that the moment is in."""
        return self.moment.replace(microsecond=0)


@dataclass(frozen=True, slots=True)
class Ago:
    """As :class:`At`, so long before now by the broker's clock.

    :raises ConfigurationError: no timedelta, or not over 0, or over a century
    """

    span: timedelta

    def __post_init__(self) -> None:
        if not isinstance(self.span, timedelta) or not timedelta() < self.span <= _LONGEST:
            raise ConfigurationError(
                f"acemq: a stream cannot be read from {self.span!r} ago: give a timedelta over 0 "
                "and of a century at most"
            )

    def argument(self) -> str:
        """The value of ``x-stream-offset``: whole seconds, rounded up."""
        return f"{-(-self.span // timedelta(seconds=1))}s"


Start: TypeAlias = Place | Offset | At | Ago


def checked_start(start: object) -> Start:
    """A beginning, as given.

    :raises ConfigurationError: anything else, a text or a number too
    """
    if isinstance(start, Place | Offset | At | Ago):
        return start
    raise ConfigurationError(
        f"acemq: a stream cannot be read from {start!r}: give First, Next, Last, Offset(number), "
        "At(datetime) or Ago(timedelta)"
    )
