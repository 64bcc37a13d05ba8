"""What is checked of a message where it enters, before any queue sees it.

On a real broker each of these closes the channel; here the message alone is refused,
under the same code and in the same words.
"""

from __future__ import annotations

import re

from acemq_amqp.core.ports import Outgoing, Refused
from acemq_amqp.properties import Properties
from acemq_amqp.transports.memory.arguments import LONGEST_WAIT
from acemq_amqp.transports.memory.messages import Message

_WHOLE = re.compile(r"[+-]?\d+")


def message_of(outgoing: Outgoing, login: str, largest: int) -> Message | Refused:
    """Reads what was published.

    :param largest: bytes that a body may have
    """
    properties = Properties.decode(outgoing.properties)
    body = outgoing.body
    if len(body) > largest:
        return _refused(f"message size {len(body)} is larger than configured max size {largest}")
    if properties.user_id is not None and properties.user_id != login:
        return _refused(
            f"user_id property set to '{properties.user_id}' but authenticated user was '{login}'"
        )
    if properties.delivery_mode not in (None, 1, 2):
        return _refused(f"invalid message: {{delivery_mode_unknown,{properties.delivery_mode}}}")
    message = Message(outgoing.exchange, (outgoing.routing_key,), properties, body)
    if properties.expiration is not None and (wrong := _expire(message, properties.expiration)):
        return wrong
    # The bytes are looked at before they are read: hardly any message has copies.
    if b"CC" in properties.headers.raw and (wrong := _copy(message)):
        return wrong
    return message


def _expire(message: Message, text: str) -> Refused | None:
    if not _WHOLE.fullmatch(text):
        return _refused(f"invalid expiration '{text}': no_integer")
    milliseconds = int(text)
    if milliseconds < 0:
        return _refused(f"invalid expiration '{text}': {{value_negative,{milliseconds}}}")
    if milliseconds > LONGEST_WAIT:
        return _refused(f"invalid expiration '{text}': {{value_too_large,{milliseconds}}}")
    message.expiration = milliseconds / 1000
    return None


def _copy(message: Message) -> Refused | None:
    headers = message.properties.headers
    for name in ("CC", "BCC"):
        keys = headers.get(name)
        if keys is None:
            continue
        if not isinstance(keys, list):
            return _refused(f'invalid message: {{unacceptable_type_in_header,"{name}"}}')
        message.routing_keys += tuple(key for key in keys if isinstance(key, str))
    if headers.get("BCC") is not None:
        message.properties = message.properties._replace(headers=headers.edited(drop=("BCC",)))
    return None


def _refused(words: str) -> Refused:
    return Refused(f"PRECONDITION_FAILED - {words}", code=406)
