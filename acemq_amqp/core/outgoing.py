"""From a payload to bytes: what can be wrong with a message is found here, before the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from acemq_amqp import headers as names
from acemq_amqp.codec import Codec
from acemq_amqp.core.ports import Outgoing, WaitingCodec
from acemq_amqp.durations import Duration, milliseconds
from acemq_amqp.envelope import Envelope, new_headers
from acemq_amqp.errors import AceMQError, ConfigurationError, EncodeError, kind_of
from acemq_amqp.fieldtable import HeaderTable
from acemq_amqp.properties import Properties

_LONGEST_NAME = 255
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_SECOND = 253_402_300_799  # 9999-12-31T23:59:59Z


@dataclass(frozen=True, slots=True)
class Sending:
    """How one publisher sends: what its messages have in common.

    :ivar waiting: the codec, where this flavour has to wait for it
    """

    exchange: str
    codec: Codec
    origin: str
    persistent: bool = True
    waiting: WaitingCodec | None = None


def checked_name(name: object, what: str) -> str:
    """A name that fits a short string of AMQP.

    :raises ConfigurationError: not text, not UTF-8, or over 255 bytes
    """
    if not isinstance(name, str):
        raise ConfigurationError(f"acemq: {what} has to be text, got {type(name).__name__}")
    if name.isascii():
        size = len(name)
    else:
        try:
            size = len(name.encode())
        except UnicodeEncodeError as error:
            raise ConfigurationError(
                f"acemq: {what} {name[:40]!r} is not UTF-8: take the lone surrogate out"
            ) from error
    if size > _LONGEST_NAME:
        raise ConfigurationError(
            f"acemq: {what} {name[:40]!r}... is over 255 bytes; AMQP carries no longer name"
        )
    return name


def outgoing_of(
    sending: Sending,
    payload: Any,
    routing_key: str,
    *,
    envelope: Envelope | None = None,
    headers: Mapping[str, Any] | None = None,
    reply_to: str = "",
    priority: int | None = None,
    expiration: Duration | None = None,
    native: Mapping[str, Any] | None = None,
    body: bytes | None = None,
) -> Outgoing:
    """Checks and encodes one message.

    :param native: further properties, as :func:`native_of` gives them
    :param body: the payload, where it is encoded otherwise
    :raises ConfigurationError: a header, property or name that cannot travel
    :raises EncodeError: a payload that the codec cannot write
    """
    key = checked_name(routing_key, "a routing key")
    values = _headers(sending, key, envelope, headers)
    message_id = values[names.ID]
    properties = Properties(
        content_type=sending.codec.content_type or None,
        headers=HeaderTable.of(values),
        delivery_mode=2 if sending.persistent else 1,
        message_id=checked_name(message_id, "a message id"),
        reply_to=reply_to or None,
        priority=_priority(priority),
        expiration=None if expiration is None else _expiration(expiration),
        **(native or {}),
    )
    if body is None:
        body = _encoded(sending.codec, payload)
    wire = properties.encode()
    return Outgoing(sending.exchange, key, message_id, wire, body, properties.user_id)


def native_of(
    correlation_id: str | None,
    type: str | None,
    timestamp: datetime | int | None,
    app_id: str | None,
    user_id: str | None,
    content_encoding: str | None,
) -> dict[str, Any]:
    """Properties that nothing of the library's reads, and that a publish may ask for.

    Empty text counts as not asked for.

    :param timestamp: aware, cut to its second; or whole seconds since the epoch
    :raises ConfigurationError: one that cannot travel
    """
    if (
        timestamp is None
        and correlation_id is type is app_id is user_id is content_encoding is None
    ):
        return {}
    texts = {"correlation_id": correlation_id, "type": type, "app_id": app_id}
    texts |= {"user_id": user_id, "content_encoding": content_encoding}
    asked = {name: checked_name(text, name) for name, text in texts.items() if text is not None}
    native: dict[str, Any] = {name: text for name, text in asked.items() if text}
    if timestamp is not None:
        native["timestamp"] = _timestamp(timestamp)
    return native


async def awaited_outgoing(
    sending: Sending, waiting: WaitingCodec, payload: Any, routing_key: str, **options: Any
) -> Outgoing:
    """The same with a codec that has to be waited for; asked last, when all else is checked."""
    outgoing = outgoing_of(sending, payload, routing_key, body=b"", **options)
    try:
        body = _checked_body(sending.codec, await waiting.encode(payload))
    except AceMQError:
        raise
    except Exception as failure:
        raise _could_not_encode(sending.codec, payload, failure) from failure
    return replace(outgoing, body=body)


def _headers(
    sending: Sending, key: str, envelope: Envelope | None, headers: Mapping[str, Any] | None
) -> dict[str, Any]:
    if envelope is None:
        return new_headers(key, sending.origin, headers)
    if not isinstance(envelope, Envelope):
        raise ConfigurationError(
            f"acemq: envelope= wants an Envelope, got {kind_of(envelope)}; make one with "
            "Envelope(...), or leave it out for a new message's"
        )
    if headers:
        envelope = envelope.with_(headers={**envelope.headers, **headers})
    if not envelope.origin and sending.origin:
        envelope = envelope.with_(origin=sending.origin)
    return envelope.to_headers(key)


def _encoded(codec: Codec, payload: Any) -> bytes:
    try:
        body = codec.encode(payload)
    except AceMQError:
        raise
    except Exception as failure:
        raise _could_not_encode(codec, payload, failure) from failure
    return _checked_body(codec, body)


def _could_not_encode(codec: Codec, payload: Any, failure: Exception) -> EncodeError:
    return EncodeError(
        f"acemq: {codec!r} could not encode {kind_of(payload)}: {failure}; nothing was sent"
    )


def _checked_body(codec: Codec, body: Any) -> bytes:
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise EncodeError(
            f"acemq: {codec!r} gave {type(body).__name__} where bytes were expected; "
            "mend its encode()"
        )
    return bytes(body)


def _priority(priority: int | None) -> int | None:
    if priority is None:
        return None
    if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority <= 255:
        raise ConfigurationError(
            f"acemq: a priority is a whole number from 0 to 255, got {priority!r}"
        )
    return priority


def _timestamp(moment: datetime | int) -> int:
    if isinstance(moment, datetime) and moment.utcoffset() is not None:
        seconds = (moment - _EPOCH) // timedelta(seconds=1)
    elif isinstance(moment, int) and not isinstance(moment, bool):
        seconds = int(moment)
    else:
        raise ConfigurationError(
            f"acemq: timestamp= wants an aware datetime, such as datetime.now(UTC), got {moment!r}"
        )
    if not 0 <= seconds <= _LAST_SECOND:
        raise ConfigurationError(
            f"acemq: the timestamp {moment!r} is before 1970 or after 9999; as a number it counts "
            "seconds since the epoch"
        )
    return seconds


def _expiration(expiration: Duration) -> str:
    whole = milliseconds(expiration, "expiration")
    if whole < 1:
        raise ConfigurationError(
            f"acemq: an expiration is at least 1 ms, got {expiration!r}; the broker would drop "
            "the message at once"
        )
    return str(whole)
