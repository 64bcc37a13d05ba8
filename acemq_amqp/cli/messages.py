"""A message as operators see it: a line of a table, a page, or data."""

from __future__ import annotations

import base64
from typing import Any

from acemq_amqp.blocking import Message
from acemq_amqp.cli.printing import ago


def headline(message: Message) -> tuple[object, ...]:
    """Id, type, attempt, age, size, error."""
    told = message.envelope
    age = ago(told.age.total_seconds())
    return told.id, told.type, told.attempt, age, len(message.body), told.error


def in_full(message: Message) -> str:
    """Everything of a message, line by line."""
    lines = [f"message {message.envelope.id}", f"  content-type: {message.content_type}"]
    lines += [f"  {name}: {value!r}" for name, value in sorted(message.all_headers.items())]
    return "\n".join([*lines, "", _text(message.body), ""])


def as_data(message: Message) -> dict[str, Any]:
    """A message for a script: the body as text, or in base64 where it is none."""
    told = message.envelope
    data: dict[str, Any] = {
        "id": told.id,
        "type": told.type,
        "attempt": told.attempt,
        "first_seen": told.first_seen.isoformat(),
        "error": told.error,
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "content_type": message.content_type,
        "headers": {name: _plain(value) for name, value in message.all_headers.items()},
    }
    try:
        data["body"] = message.body.decode()
    except UnicodeDecodeError:
        data["body_base64"] = base64.b64encode(message.body).decode()
    return data


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return repr(body)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value if isinstance(value, str | int | float | None) else str(value)
