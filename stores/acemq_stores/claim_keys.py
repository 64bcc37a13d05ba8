"""The keys of claim checks: made here, and checked when a message brings one.

A key comes out of a message, so it is anybody's input, and becomes part of a path, of an object's
name, of a statement. The expression is the one of every AceMQ library, so that they accept and
refuse the same keys over one shared store.
"""

from __future__ import annotations

import re
import uuid
from typing import Final

from acemq_amqp.errors import DecodeError

_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_SHOWN: Final = 60


def new_key() -> str:
    """A key that nobody has: UUIDv4 text."""
    return str(uuid.uuid4())


def is_key(text: str) -> bool:
    """Whether a store can have issued it."""
    return _KEY.fullmatch(text) is not None


def checked_key(key: str) -> str:
    """The key itself.

    :raises DecodeError: no store of ours issues such a key
    """
    if not isinstance(key, str) or not is_key(key):
        told = repr(key) if len(repr(key)) <= _SHOWN else f"{key[:_SHOWN]!r}..."
        raise DecodeError(
            f"acemq: {told} is not a key that this store issued, and is not looked up: a key has "
            "1 to 128 letters, digits, '.', '_' and '-', and no sign first. Look at who published "
            "the message"
        )
    return key
