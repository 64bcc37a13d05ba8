"""What can be declared on a broker: an exchange, a queue, a binding; exactly as it goes out."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.naming import checked_name

_KINDS: Final = ("direct", "fanout", "headers", "topic")


@dataclass(frozen=True, slots=True)
class ExchangeDeclaration:
    """An exchange to declare.

    :raises ConfigurationError: a name or kind the broker cannot take
    """

    name: str
    kind: str = "topic"
    durable: bool = True
    auto_delete: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        checked_name(self.name, "exchange")
        checked_name(self.kind, f"kind of the exchange {self.name!r}")
        what = f"exchange {self.name!r}"
        checked_flags(what, durable=self.durable, auto_delete=self.auto_delete)
        if self.kind not in _KINDS and not self.kind.startswith("x-"):
            near = difflib.get_close_matches(self.kind, _KINDS, 1) or _KINDS
            raise ConfigurationError(
                f"acemq: the exchange {self.name!r} is of the kind {self.kind!r}, which no broker "
                f"has: take {' or '.join(near)}, or a plugin's, which starts with x-"
            )
        _freeze(self, what)

    def __str__(self) -> str:
        lasting = "durable" if self.durable else "transient"
        auto = ", auto-delete" if self.auto_delete else ""
        return f"exchange {self.name!r}: {self.kind}, {lasting}{auto}{_told(self.arguments)}"


@dataclass(frozen=True, slots=True)
class QueueDeclaration:
    """A queue to declare, with exactly these arguments.

    :raises ConfigurationError: a name the broker cannot take
    """

    name: str
    durable: bool = True
    auto_delete: bool = False
    exclusive: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        checked_name(self.name, "queue")
        if self.name.startswith("amq."):
            raise ConfigurationError(
                f"acemq: the queue {self.name!r} cannot be declared: the broker keeps names that "
                "start with amq. for itself; give it another"
            )
        what = f"queue {self.name!r}"
        checked_flags(
            what, durable=self.durable, auto_delete=self.auto_delete, exclusive=self.exclusive
        )
        _freeze(self, what)

    def __str__(self) -> str:
        lasting = "durable" if self.durable else "transient"
        auto = ", auto-delete" if self.auto_delete else ""
        alone = ", exclusive" if self.exclusive else ""
        return f"queue {self.name!r}: {lasting}{auto}{alone}{_told(self.arguments)}"


@dataclass(frozen=True, slots=True)
class BindingDeclaration:
    """A binding to declare: what ``source`` gets under the key goes to ``destination`` too.

    :ivar to_exchange: the destination is an exchange, not a queue
    :raises ConfigurationError: a name the broker cannot take, or a routing key over 255 bytes
    """

    destination: str
    source: str
    routing_key: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)
    to_exchange: bool = False

    def __post_init__(self) -> None:
        checked_flags(f"binding of {self.destination!r}", to_exchange=self.to_exchange)
        checked_name(self.destination, "exchange" if self.to_exchange else "queue")
        if self.source == "":
            raise ConfigurationError(
                f"acemq: {self.destination!r} cannot be bound to the default exchange, which "
                "routes to every queue by its name: leave the binding out"
            )
        checked_name(self.source, "exchange")
        if self.routing_key != "":
            checked_name(self.routing_key, f"routing key of a binding of {self.destination!r}")
        _freeze(self, f"binding of {self.destination!r} to {self.source!r}")

    def __str__(self) -> str:
        end = "exchange" if self.to_exchange else "queue"
        return (
            f"binding of {end} {self.destination!r} to {self.source!r} on {self.routing_key!r}"
            f"{_told(self.arguments)}"
        )


Declaration: TypeAlias = ExchangeDeclaration | QueueDeclaration | BindingDeclaration


def mapping_by_name(arguments: Mapping[str, Any], what: str) -> Mapping[str, Any]:
    """Arguments as they may be declared.

    :raises ConfigurationError: not a mapping, or a key that is not a string
    """
    if not isinstance(arguments, Mapping) or not all(isinstance(key, str) for key in arguments):
        raise ConfigurationError(f"acemq: the arguments of the {what} are not a mapping by name")
    return arguments


def checked_flags(what: str, **flags: Any) -> None:
    """Lets True and False through, and nothing that only passes for one.

    :raises ConfigurationError: something else
    """
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ConfigurationError(
                f"acemq: {name} of the {what} is {value!r}: give True or False"
            )


def _freeze(declaration: Declaration, what: str) -> None:
    arguments = mapping_by_name(declaration.arguments, what)
    object.__setattr__(declaration, "arguments", MappingProxyType(dict(arguments)))


def _told(arguments: Mapping[str, Any]) -> str:
    return f", arguments {dict(arguments)}" if arguments else ""
