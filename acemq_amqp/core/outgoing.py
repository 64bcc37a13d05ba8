"""From a payload to bytes: what can be wrong with a message is found here, before the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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

    :raises ConfigurationError: not text, or over 255 bytes
    """
    if not isinstance(name, str):
        raise ConfigurationError(f"acemq: {what} has to be text, got {type(name).__name__}")
    if len(name) > _LONGEST_NAME // 4 and len(name.encode()) > _LONGEST_NAME:
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
    body: bytes | None = None,
) -> Outgoing:
    """Checks and encodes one message.

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
    )
    if body is None:
        body = _encoded(sending.codec, payload)
    return Outgoing(sending.exchange, key, message_id, properties.encode(), body)


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


def _expiration(expiration: Duration) -> str:
    whole = milliseconds(expiration, "expiration")
    if whole < 1:
        raise ConfigurationError(
            f"acemq: an expiration is at least 1 ms, got {expiration!r}; the broker would drop "
            "the message at once"
        )
    return str(whole)
