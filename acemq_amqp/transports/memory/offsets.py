"""Where a consumer of a stream begins, and what it wants: its arguments, read once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

from acemq_amqp.fieldtable import HeaderTable
from acemq_amqp.transports.memory.arguments import age_in_seconds
from acemq_amqp.transports.memory.refusals import invalid_argument, not_in_memory, refused


class Since(float):
    """Begin with the first message of this moment, in seconds since the epoch."""


Start: TypeAlias = Literal["first", "last", "next"] | int | Since

_FILTER, _UNFILTERED = "x-stream-filter", "x-stream-match-unfiltered"
_KNOWN = {
    "classic": ("x-priority",),
    "quorum": ("x-priority",),
    "stream": ("x-stream-offset", _FILTER, _UNFILTERED),
}

#: whether a consumer wants a message with these headers
Wanted: TypeAlias = Callable[[HeaderTable], bool]


def check_consumer(kind: str, queue: str, arguments: Mapping[str, Any]) -> None:
    """Checks what was asked for.

    :raises BrokerError: what RabbitMQ refuses too
    :raises ConfigurationError: what only this broker does not do
    """
    for name, value in arguments.items():
        if name not in _KNOWN[kind]:
            if name == "x-stream-offset":
                raise invalid_argument(name, queue, f" of queue type rabbit_{kind}_queue")
            raise not_in_memory(f"the argument {name!r} of consumers of {kind} queue {queue!r}")
        if name == "x-priority" and (isinstance(value, bool) or not isinstance(value, int)):
            raise invalid_argument(name, queue, ': "expected integer"')


def stream_start(queue: str, arguments: Mapping[str, Any], now: float) -> Start:
    """Reads the offset that a consumer asks for.

    :raises BrokerError: what closes the connection (541) or the channel (406) on RabbitMQ
    """
    value = arguments.get("x-stream-offset", "next")
    if isinstance(value, datetime):
        return Since(value.timestamp())
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if value in ("first", "last", "next"):
        start: Start = value
        return start
    if isinstance(value, str) and value[:1].isdigit():
        age = age_in_seconds(value)
        if age is None:
            raise invalid_argument(
                "x-stream-offset", queue, f": {{invalid_stream_offset_arg,{{longstr,{value!r}}}}}"
            )
        return Since(now - age)
    raise refused(541, f"INTERNAL_ERROR - x-stream-offset={value!r} of queue '{queue}'")


def stream_filter(queue: str, arguments: Mapping[str, Any]) -> Wanted | None:
    """Reads which messages a consumer wants; None is all of them.

    RabbitMQ leaves out whole chunks; here each message is a chunk.

    :raises BrokerError: what closes the channel (406) on RabbitMQ
    """
    if _FILTER not in arguments:
        return None
    given = arguments[_FILTER]
    values = given if isinstance(given, list) else [given]
    if not all(isinstance(value, str) for value in values):
        raise invalid_argument(_FILTER, queue, f": {given!r}")
    unfiltered = arguments.get(_UNFILTERED) is True

    def wanted(headers: HeaderTable) -> bool:
        value = headers.get("x-stream-filter-value")
        return unfiltered if value is None else value in values

    return wanted
