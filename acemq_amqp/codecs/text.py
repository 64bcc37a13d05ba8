"""Plain text, in UTF-8 when written and in the charset that was told when read."""

from __future__ import annotations

import codecs
from typing import Any, Final

from acemq_amqp.codecs.contenttype import charset_of, claims
from acemq_amqp.errors import DecodeError, EncodeError, kind_of

#: Python takes these for charsets. They are not, and some cost time without bound.
_NO_CHARSETS: Final = frozenset(
    {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined"}
)


class TextCodec:
    """Writes ``text/plain; charset=utf-8``, and reads every ``text/``."""

    content_type = "text/plain; charset=utf-8"

    def encode(self, payload: Any) -> bytes:
        """A string as UTF-8.

        :raises EncodeError: not a string, or one with lone surrogates
        """
        if not isinstance(payload, str):
            raise EncodeError(
                f"acemq: the text codec cannot encode {kind_of(payload)}: give a string"
            )
        try:
            return payload.encode()
        except UnicodeEncodeError as error:
            raise EncodeError(f"acemq: a text cannot be encoded as UTF-8 ({error})") from error

    def decode(self, body: bytes, content_type: str | None = None) -> str:
        """The text of a body.

        :param content_type: its ``charset`` is the body's; UTF-8 where it tells none
        :raises DecodeError: an unknown charset, or a body that is not in it
        """
        charset = charset_of(content_type)
        try:
            if codecs.lookup(charset).name.replace("_", "-") in _NO_CHARSETS:
                raise LookupError(f"unknown encoding: {charset}")
            return bytes(body).decode(charset)
        except Exception as error:
            raise DecodeError(
                f"acemq: a body of {len(body)} bytes is not text in charset {charset!r} ({error})"
                ": look at what its publisher sends"
            ) from error

    def can_decode(self, content_type: str | None) -> bool:
        """Everything that starts with ``text/``."""
        return claims(content_type, ("text/",))
