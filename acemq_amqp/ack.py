"""What a handler answers, and what its answers and errors mean.

An :class:`Ack` is a value that says what becomes of a delivery; the consumer carries it
out. The two decisions stand here too: what a returned value means, and what a raised
exception means. Both always give an :class:`Ack`, so every delivery is settled.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, Final, TypeAlias

from acemq_amqp.durations import Duration, seconds
from acemq_amqp.errors import ConfigurationError, DecodeError, FatalError, HandlerError, kind_of
from acemq_amqp.message import Message

#: ``x-acemq-error`` is cut to so many characters after its reason
LONGEST_ERROR: Final = 1000


class AckKind(Enum):
    """What becomes of a delivery."""

    #: done: acknowledged
    ACCEPT = "accept"
    #: tried again as the retry policy says, or dead-lettered
    RETRY = "retry"
    #: dead-lettered, because the handler does not want it
    REJECT = "reject"
    #: parked, because a person must look at it
    PARK = "park"
    #: put back for later, because somebody else is at it; counts no attempt
    IN_PROGRESS = "in_progress"
    #: dead-lettered, because trying again cannot help
    FATAL = "fatal"
    #: parked, because its body cannot be read
    UNDECODABLE = "undecodable"


_REASONS: Final = {
    AckKind.REJECT: "the handler rejected it",
    AckKind.PARK: "the handler parked it",
    AckKind.FATAL: "the handler reported an unprocessable message",
    AckKind.UNDECODABLE: "could not be decoded",
}


@dataclass(frozen=True, slots=True)
class Ack:
    """A handler's answer. Made by :func:`accept`, :func:`retry`, :func:`reject`, :func:`park`
    and :func:`in_progress`.

    :ivar kind: what becomes of the delivery
    :ivar error: why, as given; None where nobody said
    :ivar delay: seconds until an ``IN_PROGRESS`` delivery comes back, else 0
    :ivar result: what the handler made, for the middleware and pattern around it
    """

    kind: AckKind
    error: BaseException | str | None = None
    delay: float = 0.0
    result: Any = None

    @property
    def reason(self) -> str:
        """What ``x-acemq-error`` says of a message set aside by this answer; else ``""``.

        A retry that is given up has its reason from the policy, see :class:`GiveUp`.
        """
        reason = _REASONS.get(self.kind)
        return f"{reason}: {described(self.error)}" if reason else ""


#: What handles a message; ``async def`` too. Returns an Ack, or None to accept.
Handler: TypeAlias = Callable[[Message], Ack | Awaitable[Ack | None] | None]

_ACCEPTED: Final = Ack(AckKind.ACCEPT)


def accept(result: Any = None) -> Ack:
    """The message is done with, and acknowledged.

    :param result: handed to the middleware or pattern around the handler
    """
    return _ACCEPTED if result is None else Ack(AckKind.ACCEPT, result=result)


def retry(error: BaseException | str | None = None) -> Ack:
    """The message is tried again as the retry policy says, and dead-lettered when it gives up.

    :param error: why; when it is tried again is the policy's to say
    :raises ConfigurationError: a delay in its place
    """
    if isinstance(error, int | float | timedelta):
        raise ConfigurationError(
            f"acemq: retry({error!r}) has a delay where it takes a reason: the policy says how "
            "long a message waits; in_progress(delay) brings it back without counting an attempt"
        )
    return Ack(AckKind.RETRY, error)


def reject(error: BaseException | str | None = None) -> Ack:
    """The message goes to the dead-letter queue, with the error, and is not tried again."""
    return Ack(AckKind.REJECT, error)


def park(error: BaseException | str | None = None) -> Ack:
    """The message goes to the parking queue, with the error, for a person to look at."""
    return Ack(AckKind.PARK, error)


def in_progress(delay: Duration = timedelta(seconds=5)) -> Ack:
    """Somebody else is at this message: it comes back later, and counts no attempt.

    :param delay: until it comes back
    :raises ConfigurationError: not a duration
    """
    return Ack(AckKind.IN_PROGRESS, delay=seconds(delay, "the delay of in_progress"))


def decision_of(returned: object) -> Ack:
    """What a handler's returned value means. Anything but an Ack or None is a dead letter."""
    if returned is None:
        return _ACCEPTED
    if isinstance(returned, Ack):
        return returned
    if inspect.iscoroutine(returned):
        # Nobody will await it, and Python would warn of that at some later moment.
        returned.close()
    return Ack(
        AckKind.FATAL,
        HandlerError(
            f"acemq: the handler returned {kind_of(returned)}, which is no answer: return "
            "accept(), retry(), reject(), park(), in_progress() or None"
        ),
    )


def decision_for(exception: BaseException) -> Ack:
    """What an exception raised by a codec or handler means: mostly, try again."""
    if isinstance(exception, FatalError):
        return Ack(AckKind.FATAL, exception)
    if isinstance(exception, DecodeError):
        return Ack(AckKind.UNDECODABLE, exception)
    return Ack(AckKind.RETRY, exception)


def described(error: BaseException | str | None) -> str:
    """An error as ``x-acemq-error`` tells it: ``Type``, ``Type: text`` or ``no reason given``.

    At most 1000 characters, and always encodable. Never raises, whatever the error's own
    ``__str__`` does. A plain string is told as it is.
    """
    text = "" if error is None else _text_of(error)
    told = text if text.strip() else ""
    if isinstance(error, BaseException):
        name = type(error).__name__
        told = f"{name}: {told}" if told else name
    return _encodable(told or "no reason given")[:LONGEST_ERROR]


def _text_of(error: object) -> str:
    try:
        return str(error)
    except BaseException:
        # Even SystemExit: a delivery must be settled whatever its error's text does.
        return ""


def _encodable(text: str) -> str:
    # File names in an OSError may hold lone surrogates, which no header can carry.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
