"""Exchanges and their bindings: which destinations a message has from here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from acemq_amqp.fieldtable import encode_table
from acemq_amqp.properties import Properties
from acemq_amqp.topology import BindingDeclaration, ExchangeDeclaration
from acemq_amqp.transports.memory.matching import HeaderMatch, header_match, topic_matches
from acemq_amqp.transports.memory.refusals import not_in_memory, refused

_KINDS = ("direct", "fanout", "topic", "headers")
#: what every RabbitMQ has from the start
STANDING = tuple(
    ExchangeDeclaration(name, kind)
    for name, kind in {
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.topic": "topic",
        "amq.headers": "headers",
        "amq.match": "headers",
    }.items()
)


@dataclass(slots=True, eq=False)
class Binding:
    """One way on from an exchange."""

    destination: str
    to_exchange: bool
    key: str
    durable: bool
    match: HeaderMatch | None = None


@dataclass(slots=True, eq=False)
class Exchange:
    """An exchange. Its bindings are kept by everything that tells two apart."""

    declaration: ExchangeDeclaration
    bindings: dict[tuple[str, bool, str, bytes], Binding] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.declaration.name

    @property
    def alternate(self) -> str | None:
        """The exchange that gets what nothing here wants."""
        name: str | None = self.declaration.arguments.get("alternate-exchange")
        return name

    def bind(self, declaration: BindingDeclaration, durable: bool) -> None:
        """:raises DeclarationMismatch: arguments that cannot match (406)"""
        arguments = declaration.arguments
        match = header_match(arguments) if self.declaration.kind == "headers" else None
        identity = (
            declaration.destination,
            declaration.to_exchange,
            declaration.routing_key,
            encode_table(dict(sorted(arguments.items())), "binding argument"),
        )
        self.bindings[identity] = Binding(*identity[:3], durable, match)

    def unbind(self, destination: str, to_exchange: bool) -> bool:
        """Takes out every binding to a destination; whether there was one."""
        gone = [i for i in self.bindings if i[0] == destination and i[1] == to_exchange]
        for identity in gone:
            del self.bindings[identity]
        return bool(gone)

    def wanting(self, keys: tuple[str, ...], properties: Properties) -> Iterator[Binding]:
        """The bindings that want a message, some perhaps twice."""
        kind, bindings = self.declaration.kind, self.bindings.values()
        if kind == "fanout":
            return iter(bindings)
        if kind == "headers":
            headers: Mapping[str, Any] = properties.headers.values()
            return (b for b in bindings if b.match is not None and b.match(headers))
        if kind == "direct":
            return (b for b in bindings if b.key in keys)
        return (b for b in bindings if any(topic_matches(b.key, key) for key in keys))


def check_exchange_declaration(declaration: ExchangeDeclaration) -> None:
    """Checks what was asked for.

    :raises BrokerError: what RabbitMQ refuses too
    :raises ConfigurationError: what only this broker does not do
    """
    name, kind = declaration.name, declaration.kind
    if kind.startswith("x-"):
        raise not_in_memory(f"the type {kind!r} of exchange {name!r}")
    if kind not in _KINDS:
        raise refused(503, f"COMMAND_INVALID - invalid exchange type '{kind}'")
    for argument, value in declaration.arguments.items():
        if argument != "alternate-exchange":
            raise not_in_memory(f"the argument {argument!r} of exchange {name!r}")
        if not isinstance(value, str):
            raise refused(
                406,
                f"PRECONDITION_FAILED - invalid arg '{argument}' for exchange '{name}' "
                "in vhost '/'",
            )
