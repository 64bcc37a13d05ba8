"""Which arguments a declaration may carry, and what they mean: one table a queue type.

An argument that RabbitMQ refuses on that type, or with that value, is refused in
RabbitMQ's words. One that no table names is refused by name, since RabbitMQ, or a
plugin of it, might give it a meaning that is missing here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from acemq_amqp.topology import QueueDeclaration
from acemq_amqp.transports.memory.refusals import (
    invalid_argument,
    invalid_property,
    not_in_memory,
)

QueueKind: TypeAlias = Literal["classic", "quorum", "stream"]
Overflow: TypeAlias = Literal["drop-head", "reject-publish", "reject-publish-dlx"]

#: ten years in milliseconds: the longest wait that RabbitMQ takes
LONGEST_WAIT = 315_360_000_000
_UNITS = {"Y": 31_536_000, "M": 2_592_000, "D": 86_400, "h": 3600, "m": 60, "s": 1}
_AGE = re.compile(r"(\d+)([YMDhms])")
#: bytes after which a stream begins a new segment
_SEGMENT = 500_000_000


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """What a queue's arguments ask for. Times are seconds."""

    kind: QueueKind = "classic"
    ttl: float | None = None
    expires: float | None = None
    max_length: int | None = None
    max_bytes: int | None = None
    overflow: Overflow = "drop-head"
    dead_letter_exchange: str | None = None
    dead_letter_key: str | None = None
    max_priority: int | None = None
    single_active: bool = False
    delivery_limit: int | None = None
    max_age: float | None = None
    segment_bytes: int = _SEGMENT


# ---------------------------------------------------------------- values

#: why a value is wrong, in RabbitMQ's words; None where it is right
Check: TypeAlias = Callable[[Any], str | None]


def _whole(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return f'"expected integer, got {_amqp_type(value)}"'
    return f"{{value_negative,{value}}}" if value < 0 else None


def _wait(value: Any) -> str | None:
    wrong = _whole(value)
    if wrong is None and value > LONGEST_WAIT:
        return f"{{value_too_large,{value}}}"
    return wrong


def _positive_wait(value: Any) -> str | None:
    return "{value_zero,0}" if value == 0 and not isinstance(value, bool) else _wait(value)


def _priority(value: Any) -> str | None:
    wrong = _whole(value)
    return f"{{max_value_exceeded,{value}}}" if wrong is None and value > 255 else wrong


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) else f"{{unacceptable_type,{_amqp_type(value)}}}"


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else f"{{unacceptable_type,{_amqp_type(value)}}}"


def _age(value: Any) -> str | None:
    return None if isinstance(value, str) and _AGE.fullmatch(value) else "invalid_max_age"


def _one_of(wrong: str, *values: str) -> Check:
    return lambda value: None if value in values else wrong


def _amqp_type(value: Any) -> str:
    names = {bool: "bool", int: "signedint", str: "longstr", float: "double", bytes: "binary"}
    return names.get(type(value), "array" if isinstance(value, list) else "table")


_OVERFLOW = _one_of("invalid_overflow", "drop-head", "reject-publish", "reject-publish-dlx")
_EVERY: dict[str, Check] = {"x-queue-type": _text}
_QUEUE: dict[str, Check] = {
    **_EVERY,
    "x-message-ttl": _wait,
    "x-expires": _positive_wait,
    "x-max-length": _whole,
    "x-max-length-bytes": _whole,
    "x-overflow": _OVERFLOW,
    "x-dead-letter-exchange": _text,
    "x-dead-letter-routing-key": _text,
    "x-single-active-consumer": _flag,
}
_STREAM: dict[str, Check] = {
    **_EVERY,
    "x-max-age": _age,
    "x-max-length-bytes": _whole,
    "x-stream-max-segment-size-bytes": _whole,
    "x-initial-cluster-size": _whole,
    "x-queue-leader-locator": _text,
}
#: places and sizes on a cluster's disks have no meaning here and change nothing that a user sees
_KNOWN: dict[QueueKind, dict[str, Check]] = {
    "classic": {
        **_QUEUE,
        "x-max-priority": _priority,
        "x-queue-mode": _one_of("invalid_queue_mode", "default", "lazy"),
        "x-queue-version": _whole,
        "x-queue-master-locator": _text,
    },
    "quorum": {
        **_QUEUE,
        "x-delivery-limit": _whole,
        "x-dead-letter-strategy": _one_of("invalid_dlx_strategy", "at-most-once", "at-least-once"),
        "x-max-in-memory-length": _whole,
        "x-max-in-memory-bytes": _whole,
        "x-quorum-initial-group-size": _whole,
        "x-queue-leader-locator": _text,
    },
    "stream": _STREAM,
}
_ANYWHERE = frozenset(name for known in _KNOWN.values() for name in known)


# ---------------------------------------------------------------- declarations


def age_in_seconds(text: str) -> float | None:
    """``7D``, ``3h``, ``90m`` or ``45s`` in seconds; None for anything else."""
    found = _AGE.fullmatch(text)
    return None if found is None else float(found[1]) * _UNITS[found[2]]


def queue_options(declaration: QueueDeclaration) -> QueueOptions:
    """Reads a queue's arguments.

    :raises DeclarationMismatch: one that RabbitMQ refuses too (406)
    :raises ConfigurationError: one that only this broker does not know
    """
    name, arguments = declaration.name, declaration.arguments
    kind = _kind(name, arguments)
    for argument, value in arguments.items():
        _checked(kind, name, argument, value)
    if "x-dead-letter-routing-key" in arguments and "x-dead-letter-exchange" not in arguments:
        raise invalid_argument(
            "x-dead-letter-routing-key", name, ": routing_key_but_no_dlx_defined"
        )
    _check_properties(kind, declaration)
    return QueueOptions(
        kind=kind,
        ttl=_in_seconds(arguments.get("x-message-ttl")),
        expires=_in_seconds(arguments.get("x-expires")),
        max_length=arguments.get("x-max-length"),
        max_bytes=arguments.get("x-max-length-bytes"),
        overflow=arguments.get("x-overflow", "drop-head"),
        dead_letter_exchange=arguments.get("x-dead-letter-exchange"),
        dead_letter_key=arguments.get("x-dead-letter-routing-key"),
        max_priority=arguments.get("x-max-priority") or None,
        single_active=arguments.get("x-single-active-consumer", False),
        delivery_limit=arguments.get("x-delivery-limit"),
        max_age=age_in_seconds(arguments.get("x-max-age", "")),
        segment_bytes=arguments.get("x-stream-max-segment-size-bytes", _SEGMENT),
    )


def _kind(queue: str, arguments: Mapping[str, Any]) -> QueueKind:
    kind = arguments.get("x-queue-type", "classic")
    if kind in _KNOWN:
        return cast(QueueKind, kind)
    wrong = _text(kind) or f"\"unsupported queue type '{kind}'\""
    raise invalid_argument("x-queue-type", queue, f": {wrong}")


def _checked(kind: QueueKind, queue: str, argument: str, value: Any) -> None:
    check = _KNOWN[kind].get(argument)
    if check is None:
        if argument in _ANYWHERE:
            raise invalid_argument(argument, queue, f" of queue type rabbit_{kind}_queue")
        raise not_in_memory(f"the argument {argument!r} of queue {queue!r}")
    if (wrong := check(value)) is not None:
        raise invalid_argument(argument, queue, f": {wrong}")
    if (kind, value) in _UNDONE:
        raise not_in_memory(f"{argument}={value!r} of the {kind} queue {queue!r}")


_UNDONE = frozenset({("quorum", "reject-publish-dlx"), ("quorum", "at-least-once")})


def _check_properties(kind: QueueKind, declaration: QueueDeclaration) -> None:
    if kind == "classic":
        return
    wrong = {
        "non-durable": not declaration.durable,
        "auto-delete": declaration.auto_delete,
        "exclusive-owner": declaration.exclusive,
    }
    for property_, is_wrong in wrong.items():
        if is_wrong:
            raise invalid_property(property_, declaration.name)


def _in_seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
