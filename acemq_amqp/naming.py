"""The names that every AceMQ library gives to what stands around a queue.

They are part of the wire contract: a Java service and a Python one that consume the
same queue find the same dead-letter queue, parking queue and retry rungs.
"""

from __future__ import annotations

from typing import Final

from acemq_amqp.durations import Duration, milliseconds, spelled
from acemq_amqp.errors import ConfigurationError, article, kind_of

RETRY_EXCHANGE: Final = "acemq.retry"
DEAD_LETTER_EXCHANGE: Final = "acemq.dlx"
SCHEDULE_EXCHANGE: Final = "acemq.schedule"
#: where scheduled messages come to be looked at
SCHEDULE_CONTROL_QUEUE: Final = "acemq.schedule.due"

#: AMQP carries names as short strings
LONGEST_NAME: Final = 255
#: RabbitMQ takes a message TTL as an unsigned 32-bit number of milliseconds
LONGEST_TTL_MS: Final = 2**32 - 1


def dead_letter_queue(queue: str) -> str:
    """Where messages of a queue go that were given up: ``{queue}.dlq``.

    :raises ConfigurationError: the name is empty, too long, or not a string
    """
    return checked_name(f"{checked_name(queue, 'queue')}.dlq", "dead-letter queue")


def parked_queue(queue: str) -> str:
    """Where messages of a queue go that a person must look at: ``{queue}.parked``.

    :raises ConfigurationError: the name is empty, too long, or not a string
    """
    return checked_name(f"{checked_name(queue, 'queue')}.parked", "parking queue")


def retry_queue(queue: str, delay: Duration) -> str:
    """The rung in which messages of a queue wait so long: ``{queue}.retry.{label}``.

    :param delay: rounded to whole milliseconds, at least one
    :raises ConfigurationError: the name is unusable, or the delay is not what a rung can hold
    """
    return checked_name(f"{checked_name(queue, 'queue')}.retry.{rung_label(delay)}", "retry rung")


def rung_label(delay: Duration) -> str:
    """How a rung's name spells its delay: ``500ms``, ``90s``, ``5m``, ``2h``.

    :raises ConfigurationError: under 1 ms, or longer than the broker's message TTL (49 days)
    """
    return spelled(rung_ttl(delay) / 1000)


def rung_ttl(delay: Duration) -> int:
    """The message TTL of a rung, in milliseconds.

    :raises ConfigurationError: under 1 ms, or longer than the broker's message TTL (49 days)
    """
    ttl = milliseconds(delay, "the delay of a retry rung")
    if ttl < 1:
        raise ConfigurationError(
            "acemq: a retry rung of under 1 ms cannot be: give a longer delay, or let it wait here"
        )
    if ttl > LONGEST_TTL_MS:
        raise ConfigurationError(
            f"acemq: a retry rung of {spelled(ttl / 1000)} is longer than the broker's message "
            "TTL, 2^32-1 ms (49 days): give the retry policy a max_delay"
        )
    return ttl


def checked_name(name: str, what: str) -> str:
    """A queue's or exchange's name, as given.

    :param what: what it names, for the error
    :raises ConfigurationError: not a string, empty, over 255 bytes of UTF-8, or with a line
        break (RabbitMQ strips those, and the object would have another name than asked for)
    """
    if not isinstance(name, str):
        raise ConfigurationError(
            f"acemq: the name of {article(what)} is {kind_of(name)}: give a string"
        )
    if not name:
        raise ConfigurationError(f"acemq: the name of {article(what)} is empty: give it a name")
    if "\n" in name or "\r" in name:
        raise ConfigurationError(
            f"acemq: the {what} {name!r} has a line break in its name, which the broker would "
            "strip: take it out"
        )
    if _bytes_of(name, what) > LONGEST_NAME:
        raise ConfigurationError(
            f"acemq: the name of the {what} {name!r} is over {LONGEST_NAME} bytes: shorten it"
        )
    return name


def _bytes_of(name: str, what: str) -> int:
    try:
        return len(name.encode())
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"acemq: the name of the {what} {name!r} is not UTF-8: take the lone surrogate out"
        ) from error
