"""Declaring again what exists: equal is fine, and a difference is named with both values.

RabbitMQ compares the arguments that it knows, numbers of every width alike, and
takes a missing ``x-queue-type`` for ``classic``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acemq_amqp.topology import ExchangeDeclaration, QueueDeclaration
from acemq_amqp.transports.memory.refusals import refused

_TYPE = "x-queue-type"
_TYPES = {bool: "bool", int: "signedint", str: "longstr"}


def check_queue(current: QueueDeclaration, again: QueueDeclaration) -> None:
    """:raises DeclarationMismatch: naming the first difference"""
    where = f"queue '{current.name}' in vhost '/'"
    _check_flag(where, "durable", current.durable, again.durable)
    _check_flag(where, "auto_delete", current.auto_delete, again.auto_delete)
    have, want = dict(current.arguments), dict(again.arguments)
    if have.get(_TYPE, "classic") == want.get(_TYPE, "classic"):
        have.pop(_TYPE, None)
        want.pop(_TYPE, None)
    _check_arguments(where, have, want)


def check_exchange(current: ExchangeDeclaration, again: ExchangeDeclaration) -> None:
    """:raises DeclarationMismatch: naming the first difference"""
    where = f"exchange '{current.name}' in vhost '/'"
    if current.kind != again.kind:
        raise _inequivalent(where, "type", f"'{again.kind}'", f"'{current.kind}'")
    _check_flag(where, "durable", current.durable, again.durable)
    _check_flag(where, "auto_delete", current.auto_delete, again.auto_delete)
    _check_arguments(where, current.arguments, again.arguments)


def _check_flag(where: str, name: str, current: bool, again: bool) -> None:
    if current != again:
        raise _inequivalent(where, name, f"'{_word(again)}'", f"'{_word(current)}'")


def _check_arguments(where: str, current: Mapping[str, Any], again: Mapping[str, Any]) -> None:
    for name in sorted({*current, *again}):
        have, want = current.get(name), again.get(name)
        if have == want:
            continue
        if have is None:
            raise _inequivalent(where, name, f"the value {_valued(want)}", "none")
        if want is None:
            raise _inequivalent(where, name, "none", f"the value {_valued(have)}")
        raise _inequivalent(where, name, f"'{_word(want)}'", f"'{_word(have)}'")


def _inequivalent(where: str, name: str, received: str, current: str) -> Exception:
    return refused(
        406,
        f"PRECONDITION_FAILED - inequivalent arg '{name}' for {where}: "
        f"received {received} but current is {current}",
    )


def _valued(value: Any) -> str:
    return f"'{_word(value)}' of type '{_TYPES.get(type(value), type(value).__name__)}'"


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
