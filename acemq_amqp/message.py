"""A message as a handler sees it: payload, envelope, and where it came from.

A received :class:`Message` stands over the arrival it was made of and parses nothing
until it is asked: a handler that looks at the payload alone pays for no header. One that
is built by hand, in a test, has the same face.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from acemq_amqp import headers as names
from acemq_amqp.envelope import Envelope
from acemq_amqp.headers import read_text


class ReceivedHeaders(Protocol):
    """Headers that are decoded when they are first asked for."""

    def values(self) -> Mapping[str, Any]: ...


class ReceivedProperties(Protocol):
    """The native properties of a received message, as far as a message shows them."""

    @property
    def headers(self) -> ReceivedHeaders: ...
    @property
    def content_type(self) -> str | None: ...
    @property
    def message_id(self) -> str | None: ...
    @property
    def reply_to(self) -> str | None: ...


class Received(Protocol):
    """What arrived."""

    @property
    def properties(self) -> ReceivedProperties: ...
    @property
    def exchange(self) -> str: ...
    @property
    def routing_key(self) -> str: ...
    @property
    def redelivered(self) -> bool: ...
    @property
    def body(self) -> bytes: ...


class Message:
    """A decoded message. Read-only; cheap until its headers are looked at.

    :param payload: the decoded body
    :param envelope: a new message's, by default
    :param routing_key: the key it first arrived with
    :param exchange: the exchange it first arrived from
    :param content_type: as it was sent; None and ``""`` are kept apart
    :param redelivered: whether the broker delivered it before
    :param body: the body as it came
    :param headers: the application's headers; the envelope's, by default
    :param reply_to: where an answer goes; ``""`` where none is wanted
    """

    __slots__ = (
        *("_payload", "_source", "_envelope", "_headers", "_exchange", "_routing_key"),
        *("_content_type", "_redelivered", "_body", "_reply_to"),
    )

    _source: Received | None
    _envelope: Envelope | None
    _headers: Mapping[str, Any] | None
    _exchange: str | None
    _routing_key: str | None

    def __init__(
        self,
        payload: Any,
        envelope: Envelope | None = None,
        routing_key: str = "",
        exchange: str = "",
        content_type: str | None = None,
        redelivered: bool = False,
        body: bytes = b"",
        headers: Mapping[str, Any] | None = None,
        reply_to: str = "",
    ) -> None:
        self._source = None
        self._payload = payload
        self._envelope = Envelope(headers=headers or {}) if envelope is None else envelope
        self._headers = self._envelope.headers if headers is None else headers
        self._routing_key = routing_key
        self._exchange = exchange
        self._content_type = content_type
        self._redelivered = redelivered
        self._body = body
        self._reply_to = reply_to

    @classmethod
    def received(cls, payload: Any, source: Received) -> Message:
        """A message over what arrived. Nothing is parsed until it is asked for.

        :param source: kept, and read later: it must not change
        """
        message = cls.__new__(cls)
        message._payload = payload
        message._source = source
        message._envelope = message._headers = message._exchange = message._routing_key = None
        return message

    @property
    def payload(self) -> Any:
        """The decoded body."""
        return self._payload

    @property
    def envelope(self) -> Envelope:
        """What the message says of itself. Never raises, whatever its headers hold."""
        if self._envelope is None:
            self._envelope = Envelope.from_headers(
                self.all_headers, self.routing_key, self._arrival.properties.message_id
            )
        return self._envelope

    @property
    def headers(self) -> Mapping[str, Any]:
        """The application's headers: those of the library and of the broker are not among them."""
        if self._headers is None:
            self._headers = self.envelope.headers
        return self._headers

    @property
    def all_headers(self) -> Mapping[str, Any]:
        """Every header, the library's and the broker's too, as it arrived. To be read only."""
        if self._source is None:
            return {**self.envelope.to_headers(self.routing_key), **self.headers}
        return self._source.properties.headers.values()

    @property
    def routing_key(self) -> str:
        """The key the message first arrived with, before any retry or replay."""
        if self._routing_key is None:
            self._exchange, self._routing_key = self._first_arrival()
        return self._routing_key

    @property
    def exchange(self) -> str:
        """The exchange the message first arrived from, before any retry or replay."""
        if self._exchange is None:
            self._exchange, self._routing_key = self._first_arrival()
        return self._exchange

    @property
    def content_type(self) -> str | None:
        """The content type as it was sent; None where there was none."""
        return self._content_type if self._source is None else self._source.properties.content_type

    @property
    def redelivered(self) -> bool:
        """Whether the broker has delivered the message before."""
        return self._redelivered if self._source is None else self._source.redelivered

    @property
    def body(self) -> bytes:
        """The body as it came, undecoded."""
        return self._body if self._source is None else self._source.body

    @property
    def reply_to(self) -> str:
        """Where an answer goes: ``acemq-reply-to``, else the native property, else ``""``."""
        if self._source is None:
            return self._reply_to
        header = read_text(self.all_headers.get(names.REPLY_TO))
        return header or self._source.properties.reply_to or ""

    @property
    def properties(self) -> ReceivedProperties | None:
        """The native properties as they arrived; None for a message built by hand."""
        return None if self._source is None else self._source.properties

    @property
    def _arrival(self) -> Received:
        assert self._source is not None, "a message built by hand has every field"
        return self._source

    def _first_arrival(self) -> tuple[str, str]:
        # The first hop notes both, and leaves out what is empty: so one note speaks for the two.
        headers = self.all_headers
        if names.EXCHANGE in headers or names.ROUTING_KEY in headers:
            exchange, key = headers.get(names.EXCHANGE), headers.get(names.ROUTING_KEY)
            return read_text(exchange), read_text(key)
        return self._arrival.exchange, self._arrival.routing_key

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash(self.envelope.id)

    def __repr__(self) -> str:
        # No payload and no header: a log is no place for what they may hold.
        return (
            f"Message(id={self.envelope.id!r}, type={self.envelope.type!r}, "
            f"attempt={self.envelope.attempt}, exchange={self.exchange!r}, "
            f"routing_key={self.routing_key!r}, content_type={self.content_type!r}, "
            f"redelivered={self.redelivered}, body={len(self.body)} bytes)"
        )

    def _facts(self) -> tuple[Any, ...]:
        return (
            *(self.payload, self.envelope, self.routing_key, self.exchange, self.content_type),
            *(self.redelivered, self.body, self.headers, self.reply_to),
        )
