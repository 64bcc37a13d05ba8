"""Calls to the broker as frames of ours, answered through the driver.

The driver's own frames refuse names that brokers allow and write tables with another
codec than the toolkit's. So each call is a frame that brings its bytes along: the
driver sends it and pairs it with its answer.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, ClassVar

from pamqp.base import Frame

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.fieldtable import encode_table


class Request(Frame):
    """A method whose fields are encoded already."""

    synchronous = True

    def __init__(self, fields: bytes) -> None:
        self.fields = fields

    def marshal(self) -> bytes:
        return b"\x00\x00" + self.fields  # every one begins with the ticket that AMQP gave up


def _text(value: str) -> bytes:
    raw = value.encode()
    if len(raw) > 255:
        raise ConfigurationError(
            f"acemq: the name {value[:40]!r}... has {len(raw)} bytes, and AMQP allows 255; "
            "shorten it"
        )
    return bytes((len(raw),)) + raw


def _bits(*flags: bool) -> bytes:
    return bytes((sum(flag << place for place, flag in enumerate(flags)),))


def _table(values: Mapping[str, Any]) -> bytes:
    raw = encode_table(values, "argument")
    return struct.pack(">I", len(raw)) + raw


class ExchangeDeclare(Request):
    name: ClassVar[str] = "Exchange.Declare"
    index: ClassVar[int] = 0x0028000A
    valid_responses: ClassVar[list[str]] = ["Exchange.DeclareOk"]

    def __init__(
        self,
        exchange: str,
        kind: str = "direct",
        *,
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        flags = _bits(passive, durable, auto_delete)
        super().__init__(_text(exchange) + _text(kind) + flags + _table(arguments or {}))


class ExchangeBind(Request):
    name: ClassVar[str] = "Exchange.Bind"
    index: ClassVar[int] = 0x0028001E
    valid_responses: ClassVar[list[str]] = ["Exchange.BindOk"]

    def __init__(
        self, destination: str, source: str, routing_key: str, arguments: Mapping[str, Any]
    ) -> None:
        names = _text(destination) + _text(source) + _text(routing_key)
        super().__init__(names + _bits() + _table(arguments))


class QueueDeclare(Request):
    name: ClassVar[str] = "Queue.Declare"
    index: ClassVar[int] = 0x0032000A
    valid_responses: ClassVar[list[str]] = ["Queue.DeclareOk"]

    def __init__(
        self,
        queue: str,
        *,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        flags = _bits(passive, durable, exclusive, auto_delete)
        super().__init__(_text(queue) + flags + _table(arguments or {}))


class QueueBind(Request):
    name: ClassVar[str] = "Queue.Bind"
    index: ClassVar[int] = 0x00320014
    valid_responses: ClassVar[list[str]] = ["Queue.BindOk"]

    def __init__(
        self, queue: str, exchange: str, routing_key: str, arguments: Mapping[str, Any]
    ) -> None:
        names = _text(queue) + _text(exchange) + _text(routing_key)
        super().__init__(names + _bits() + _table(arguments))


class QueuePurge(Request):
    name: ClassVar[str] = "Queue.Purge"
    index: ClassVar[int] = 0x0032001E
    valid_responses: ClassVar[list[str]] = ["Queue.PurgeOk"]

    def __init__(self, queue: str) -> None:
        super().__init__(_text(queue) + _bits())


class QueueDelete(Request):
    name: ClassVar[str] = "Queue.Delete"
    index: ClassVar[int] = 0x00320028
    valid_responses: ClassVar[list[str]] = ["Queue.DeleteOk"]

    def __init__(self, queue: str) -> None:
        super().__init__(_text(queue) + _bits())


class BasicConsume(Request):
    name: ClassVar[str] = "Basic.Consume"
    index: ClassVar[int] = 0x003C0014
    valid_responses: ClassVar[list[str]] = ["Basic.ConsumeOk"]

    def __init__(self, queue: str, tag: str, exclusive: bool, arguments: Mapping[str, Any]) -> None:
        flags = _bits(False, False, exclusive)
        super().__init__(_text(queue) + _text(tag) + flags + _table(arguments))
