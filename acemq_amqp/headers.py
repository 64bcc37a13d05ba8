"""The headers that belong to the library, and how their values are read.

The prefix ``x-acemq-`` is the library's, in every language. Writing is strict: a
reserved name among an application's headers is refused. Reading never raises: a
header is written by somebody else, and a value that makes no sense gives the default.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from acemq_amqp.errors import ConfigurationError

PREFIX: Final = "x-acemq-"

ID: Final = "x-acemq-id"
TYPE: Final = "x-acemq-type"
VERSION: Final = "x-acemq-version"
CORRELATION: Final = "x-acemq-correlation"
CAUSATION: Final = "x-acemq-causation"
ATTEMPT: Final = "x-acemq-attempt"
FIRST_SEEN: Final = "x-acemq-first-seen"
ORIGIN: Final = "x-acemq-origin"
ERROR: Final = "x-acemq-error"
CLAIM: Final = "x-acemq-claim"
ROUTE: Final = "x-acemq-route"
ROUTE_POSITION: Final = "x-acemq-route-position"
ROUTE_ID: Final = "x-acemq-route-id"

#: what an envelope is made of
ENVELOPE: Final = frozenset(
    {ID, TYPE, VERSION, CORRELATION, CAUSATION, ATTEMPT, FIRST_SEEN}
    | {ORIGIN, ERROR, CLAIM, ROUTE, ROUTE_POSITION, ROUTE_ID}
)

# Written by hops.
#: the exchange a message first arrived from
EXCHANGE: Final = "x-acemq-exchange"
#: the routing key a message first arrived with
ROUTING_KEY: Final = "x-acemq-routing-key"
#: how often a message was put back by a hop
DELIVERIES: Final = "x-acemq-deliveries"
#: the expiration that a hop took off
EXPIRATION: Final = "x-acemq-expiration"
#: the user id that a hop took off
USER_ID: Final = "x-acemq-user-id"

#: written by hops, and carried by their raw headers alone
HOP: Final = frozenset({EXCHANGE, ROUTING_KEY, DELIVERIES, EXPIRATION, USER_ID})

# Written by event logs.
LOG: Final = "acemq-log-"
LOG_LANE: Final = "acemq-log-lane"
LOG_TIME: Final = "acemq-log-time"
LOG_MARK: Final = "acemq-log-mark"
LOG_WINDOW_PREFIX: Final = "acemq-log-window-"

# The family's other headers: visible to applications.
TRACE_PARENT: Final = "traceparent"
TRACE_STATE: Final = "tracestate"
REPLY_TO: Final = "acemq-reply-to"
REPLY_ERROR: Final = "acemq-error"
ROUTING_SLIP: Final = "acemq-routing-slip"
REPLAYED_FROM: Final = "acemq-replayed-from"
REPLAYED_AT: Final = "acemq-replayed-at"
REPLAY_COUNT: Final = "acemq-replay-count"
SCHEDULE_TO_EXCHANGE: Final = "x-schedule-exchange"
SCHEDULE_TO_ROUTING_KEY: Final = "x-schedule-routing-key"
SCHEDULE_CONTENT_TYPE: Final = "x-schedule-content-type"
SCHEDULE_DUE_AT: Final = "x-schedule-due-at"

# Written by RabbitMQ on its own account.
_DEATHS: Final = ("x-first-death-", "x-last-death-")
BROKER: Final = frozenset({"x-death", "x-delivery-count", "x-acquired-count"})

_HIDDEN: Final = (PREFIX, LOG_WINDOW_PREFIX, *_DEATHS)
_HIDDEN_NAMES: Final = BROKER | {LOG_LANE, LOG_TIME, LOG_MARK}
#: the largest number that a header can hold
LARGEST: Final = 2**63 - 1


def is_hidden(name: str) -> bool:
    """Whether a header is the library's or the broker's own, and no application's."""
    return name.startswith(_HIDDEN) or name in _HIDDEN_NAMES


def is_carried(name: str) -> bool:
    """Whether a header is a newer library's: hidden from the application, kept on a hop."""
    return name.startswith(PREFIX) and name not in ENVELOPE and name not in HOP


def refuse_reserved(names: Iterable[str]) -> None:
    """Lets an application's header names through, and refuses the library's.

    :raises ConfigurationError: a name that starts with ``x-acemq-``, or is not a string
    """
    offenders = []
    for name in names:
        if not isinstance(name, str):
            raise ConfigurationError(f"acemq: the header name {name!r} is not a string")
        if name.startswith(PREFIX):
            offenders.append(name)
    if offenders:
        raise ConfigurationError(
            f"acemq: reserved header names: {', '.join(sorted(offenders))}. The prefix {PREFIX} "
            "belongs to the library: use the fields of the envelope, or another name"
        )


def read_text(value: object) -> str:
    """A header's value as text. Never raises.

    None is ``""``; bytes are UTF-8 with replacement; anything else is ``str()`` of it.
    """
    if type(value) is str:
        return value
    if value is None:
        return ""
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "replace")
    try:
        return str(value)
    except Exception:
        # An integer of thousands of digits, or an object of a caller's own.
        return ""


def read_number(value: object, default: int, least: int = -LARGEST - 1) -> int:
    """A header's value as an integer of at most 64 bits. Never raises.

    :param default: given where the value is absent, a bool, no integer, or out of range
    :param least: the smallest value that makes sense
    """
    if isinstance(value, bool):
        return default
    if isinstance(value, int):
        number = value
    else:
        try:
            number = int(read_text(value))
        except ValueError:
            return default
    return int(number) if least <= number <= LARGEST else default
