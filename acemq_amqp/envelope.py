"""The envelope: what a message says of itself, apart from its payload.

An :class:`Envelope` is an immutable value. It becomes the reserved headers of a publish
and is read back from the headers of a delivery, together with the application's own.
Building by hand is strict; reading never raises, since a header is somebody else's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from os import urandom
from time import time_ns
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from acemq_amqp import headers as names
from acemq_amqp.errors import ConfigurationError, kind_of
from acemq_amqp.headers import read_number, read_text

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
#: a UUID's variant takes two bits of its seventeenth digit
_VARIANT: Final = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))
_NO_HEADERS: Final[Mapping[str, Any]] = MappingProxyType({})
_TEXTS: Final = (
    *("id", "type", "correlation_id", "causation_id", "origin"),
    *("error", "claim", "route", "route_id"),
)
_NUMBERS: Final = (("version", 1), ("attempt", 1), ("route_position", 0))

_set = object.__setattr__


def _no_headers() -> Mapping[str, Any]:
    return _NO_HEADERS


def fresh_id() -> str:
    """A new random UUID (version 4) as text."""
    hex = urandom(16).hex()
    return f"{hex[:8]}-{hex[8:12]}-4{hex[13:16]}-{_VARIANT[hex[16]]}{hex[17:20]}-{hex[20:]}"


def now_ms() -> datetime:
    """The present moment in UTC, in whole milliseconds, as ``x-acemq-first-seen`` keeps it."""
    return datetime.fromtimestamp(time_ns() // 1_000_000 / 1000, UTC)


def new_headers(
    routing_key: str = "", origin: str = "", headers: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The headers of a new message: ``Envelope(origin=..., headers=...).to_headers(routing_key)``.

    For publishes of which nobody asked more; several times as fast.

    :raises ConfigurationError: a reserved header name
    """
    id = fresh_id()
    written: dict[str, Any] = {
        names.ID: id,
        names.TYPE: routing_key or "message",
        names.VERSION: 1,
        names.CORRELATION: id,
        names.ATTEMPT: 1,
        names.FIRST_SEEN: time_ns() // 1_000_000,
    }
    if origin:
        written[names.ORIGIN] = origin
    if headers:
        names.refuse_reserved(_mapping(headers))
        written.update(headers)
    return written


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a message says of itself. Immutable; built with defaults that make a new message.

    :param id: identity of the message, the same on every try; fresh UUID by default
    :param type: what the payload is; the routing key when it is published, by default
    :param version: version of that type, from 1
    :param correlation_id: the conversation it belongs to; the id by default
    :param causation_id: id of the message that caused it
    :param attempt: how often the library has published it, from 1
    :param first_seen: aware moment of its first publish, kept in UTC and whole milliseconds
    :param origin: ``service@host``; the connection's when it is published, by default
    :param error: why it was set aside
    :param claim: an application's own note
    :param route: step names of a declared route, joined by ``,``
    :param route_position: step of the route, from 0
    :param route_id: id of this run of the route; fresh UUID by default where there is a route
    :param headers: the application's headers; none may start with ``x-acemq-``
    :param carried: headers of a newer library, carried along unread
    :raises ConfigurationError: a value of the wrong type or range, or a reserved header name
    """

    id: str = field(default_factory=fresh_id)
    type: str = ""
    version: int = 1
    correlation_id: str = ""
    causation_id: str = ""
    attempt: int = 1
    first_seen: datetime = field(default_factory=now_ms)
    origin: str = ""
    error: str = ""
    claim: str = ""
    route: str = ""
    route_position: int = 0
    route_id: str = ""
    headers: Mapping[str, Any] = field(default_factory=_no_headers, hash=False)
    carried: Mapping[str, Any] = field(default_factory=_no_headers, hash=False, repr=False)

    def __post_init__(self) -> None:
        # Runs for every publish: one chain of comparisons, and a closer look only where it fails.
        if not (
            str
            is self.id.__class__
            is self.type.__class__
            is self.correlation_id.__class__
            is self.causation_id.__class__
            is self.origin.__class__
            is self.error.__class__
            is self.claim.__class__
            is self.route.__class__
            is self.route_id.__class__
        ):
            self._put_texts()
        if not int is self.version.__class__ is self.attempt.__class__ is (
            self.route_position.__class__
        ) or not (self.version >= 1 <= self.attempt and self.route_position >= 0):
            self._put_numbers()
        if not self.id:
            _set(self, "id", fresh_id())
        if not self.correlation_id:
            _set(self, "correlation_id", self.id)
        if self.route and not self.route_id:
            _set(self, "route_id", fresh_id())
        self._put_moment()
        if self.headers is not _NO_HEADERS:
            names.refuse_reserved(_mapping(self.headers))
            _set(self, "headers", MappingProxyType(dict(self.headers)))
        if self.carried is not _NO_HEADERS:
            self._put_carried()

    def _put_texts(self) -> None:
        for name in _TEXTS:
            _set(self, name, _as_text(name, getattr(self, name)))

    def _put_numbers(self) -> None:
        for name, least in _NUMBERS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise _wrong_number(name, value, least)
            _set(self, name, int(value))

    def _put_moment(self) -> None:
        moment = self.first_seen
        if moment.__class__ is not datetime or moment.tzinfo is not UTC:
            _set(self, "first_seen", _moment(moment))
        elif moment.microsecond % 1000:
            _set(self, "first_seen", _whole(moment))

    def _put_carried(self) -> None:
        strangers = [name for name in _mapping(self.carried) if not names.is_carried(name)]
        if strangers:
            raise ConfigurationError(
                f"acemq: not headers of a newer library, and so not to be carried: {strangers}: "
                "give them as fields or headers of the envelope"
            )
        _set(self, "carried", MappingProxyType(dict(self.carried)))

    @property
    def age(self) -> timedelta:
        """Time since the message was first seen; never negative, whatever the other clock says."""
        return max(datetime.now(UTC) - self.first_seen, timedelta())

    def with_(self, **changes: Any) -> Envelope:
        """The same envelope with some fields changed.

        :raises ConfigurationError: as for a new envelope
        """
        return replace(self, **changes)

    def caused(self, **changes: Any) -> Envelope:
        """The envelope of a new message that this one caused.

        It has a new id, this id as its causation, and the same correlation. All else is a new
        message's, and can be given.

        :raises ConfigurationError: as for a new envelope
        """
        ties = {"correlation_id": self.correlation_id, "causation_id": self.id}
        return Envelope(**{**ties, **changes})

    # ------------------------------------------------------------ on the wire

    def to_headers(self, routing_key: str = "") -> dict[str, Any]:
        """All headers to publish: the reserved ones, those carried along, the application's.

        :param routing_key: what the type is when the envelope names none
        """
        written: dict[str, Any] = {
            names.ID: self.id,
            names.TYPE: self.type or routing_key or "message",
            names.VERSION: self.version,
            names.CORRELATION: self.correlation_id,
            names.ATTEMPT: self.attempt,
            names.FIRST_SEEN: (self.first_seen - _EPOCH) // _MILLISECOND,
        }
        if self.causation_id:
            written[names.CAUSATION] = self.causation_id
        if self.origin:
            written[names.ORIGIN] = self.origin
        if self.error:
            written[names.ERROR] = self.error
        if self.claim:
            written[names.CLAIM] = self.claim
        if self.route:
            self._write_route(written)
        if self.carried:
            written.update(self.carried)
        if self.headers:
            written.update(self.headers)
        return written

    def _write_route(self, written: dict[str, Any]) -> None:
        written[names.ROUTE] = self.route
        written[names.ROUTE_POSITION] = self.route_position
        if self.route_id:
            written[names.ROUTE_ID] = self.route_id

    @classmethod
    def from_headers(
        cls,
        headers: Mapping[str, Any] | None,
        routing_key: str = "",
        message_id: str | None = None,
    ) -> Envelope:
        """The envelope that a message's headers tell. Never raises, whatever their values are.

        :param headers: every header, as it came
        :param routing_key: what it arrived on: the type where none is told
        :param message_id: the native property: the id where none is told
        """
        headers = headers or {}
        get = headers.get
        id = read_text(get(names.ID)) or read_text(message_id) or fresh_id()
        shown, carried = _sorted_out(headers)
        return cls._read(
            id=id,
            type=read_text(get(names.TYPE)) or read_text(routing_key),
            version=read_number(get(names.VERSION), 1, least=1),
            correlation_id=read_text(get(names.CORRELATION)) or id,
            causation_id=read_text(get(names.CAUSATION)),
            attempt=read_number(get(names.ATTEMPT), 1, least=1),
            first_seen=_read_moment(get(names.FIRST_SEEN)),
            origin=read_text(get(names.ORIGIN)),
            error=read_text(get(names.ERROR)),
            claim=read_text(get(names.CLAIM)),
            route=read_text(get(names.ROUTE)),
            route_position=read_number(get(names.ROUTE_POSITION), 0, least=0),
            route_id=read_text(get(names.ROUTE_ID)),
            headers=shown,
            carried=carried,
        )

    @classmethod
    def _read(cls, **values: Any) -> Envelope:
        # Past __post_init__: what was read is kept as it is, strange or not.
        envelope = object.__new__(cls)
        for name, value in values.items():
            _set(envelope, name, value)
        return envelope

    def __reduce__(self) -> tuple[Any, ...]:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return _unpickled, (values | {name: dict(values[name]) for name in ("headers", "carried")},)


def _unpickled(values: dict[str, Any]) -> Envelope:
    proxies = {name: MappingProxyType(values[name]) for name in ("headers", "carried")}
    return Envelope._read(**(values | proxies))


def _sorted_out(headers: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    shown: dict[str, Any] = {}
    carried: dict[str, Any] = {}
    for name, value in headers.items():
        if name in names.ENVELOPE or not isinstance(name, str):
            continue
        if not names.is_hidden(name):
            shown[name] = value
        elif names.is_carried(name):
            carried[name] = value
    return MappingProxyType(shown), MappingProxyType(carried) if carried else _NO_HEADERS


def _mapping(value: Mapping[str, Any]) -> Mapping[str, Any]:
    if value.__class__ is not dict and not isinstance(value, Mapping):
        raise ConfigurationError(
            f"acemq: the headers of an envelope are {kind_of(value)}: give a mapping"
        )
    return value


def _whole(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _moment(value: object) -> datetime:
    if not isinstance(value, datetime):
        raise ConfigurationError(
            f"acemq: first_seen of an envelope is {kind_of(value)}: give an aware datetime"
        )
    if value.utcoffset() is None:
        raise ConfigurationError(
            "acemq: first_seen of an envelope has no time zone: give an aware datetime, such as "
            "datetime.now(UTC)"
        )
    try:
        return _whole(value.astimezone(UTC))
    except OverflowError as error:
        raise ConfigurationError(
            f"acemq: first_seen of an envelope is out of range in UTC: {value}"
        ) from error


def _read_moment(value: object) -> datetime:
    # Milliseconds beyond what a datetime holds are no moment that anybody saw.
    milliseconds = read_number(value, -(2**62))
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return now_ms()


def _as_text(name: str, value: object) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, UUID):
        return str(value)
    raise ConfigurationError(f"acemq: {name} of an envelope is {kind_of(value)}: give a string")


def _wrong_number(name: str, value: object, least: int) -> ConfigurationError:
    told = value if isinstance(value, int | float) else kind_of(value)
    return ConfigurationError(
        f"acemq: {name} of an envelope is {told}: give an integer, {least} or more"
    )
