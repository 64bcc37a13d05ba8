"""What can be wrong between a group's position and the stream that it points into."""

from __future__ import annotations

from acemq_amqp.errors import AceMQError, BrokerError, NotFound


class LogReplaced(BrokerError):
    """The stream is not the one that the position was taken in: it was deleted and made anew.

    Read on with the old position, it would give nothing for ever, or skip what is new.
    """


class RetentionPassed(BrokerError):
    """Retention removed messages that the group had not read.

    :ivar first: offset of the first message that is gone
    :ivar until: offset of the oldest that is still there
    """

    def __init__(self, text: str, first: int, until: int) -> None:
        super().__init__(text)
        self.first = first
        self.until = until


class GivenUp(AceMQError):
    """A message failed too often, and its log keeps no dead letters: reading ended before it.

    Mend what fails, or seek past it.
    """


class LeaseLost(AceMQError):
    """An acknowledgement came too late: another reader has the messages, or the group was sought.

    Nothing was written. The messages are delivered again, or not, as the group stands now.
    """


class QueryFailed(AceMQError):
    """A query stopped, as it could not go on: it is the query that is wrong, or what it writes to.

    What was not committed is worked on again once it is mended and run again.
    """


class QueryReset(AceMQError):
    """A query was reset, or its log deleted, while it ran here: what ran here has ended."""


def not_given_up(group: str, record: str, reason: str) -> GivenUp:
    """The error of a message that is not to become a dead letter."""
    return GivenUp(
        f"acemq: group {group!r} cannot get past {record}, and its log keeps no dead letters: "
        f"{reason}. Mend what fails, or seek past it"
    )


def gone(group: str, stream: str) -> NotFound:
    """The error of a position that was deleted while it was read from."""
    return NotFound(
        f"acemq: group {group!r} no longer is in stream {stream!r}: the group, or its log, was "
        "deleted while it was read here. Start it again to begin anew"
    )


def replaced(group: str, stream: str, next: int) -> LogReplaced:
    """The error of a position that does not fit its stream."""
    return LogReplaced(
        f"acemq: group {group!r} stands at offset {next} of stream {stream!r}, which is another "
        "stream by now: it was deleted and made again. Seek the group (to 'first', say), or delete "
        "it"
    )


def passed(group: str, stream: str, first: int, until: int) -> RetentionPassed:
    """The error of a position that retention has overtaken."""
    return RetentionPassed(
        f"acemq: retention removed offsets {first} to {until - 1} of stream {stream!r} before "
        f"group {group!r} had read them: seek the group, or read with on_gap='skip'",
        first,
        until,
    )
