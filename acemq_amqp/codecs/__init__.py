"""One file a format. Formats that need another package are extras.

What a codec is stands here, so that every format and :mod:`acemq_amqp.codec` can name it.
"""

from __future__ import annotations

from typing import Any, Protocol


class Codec(Protocol):
    """Turns payloads into bodies and back. May be shared between threads.

    Bad input raises :class:`~acemq_amqp.errors.EncodeError` or
    :class:`~acemq_amqp.errors.DecodeError`, and nothing else.

    A codec that only computes has these members and no more. One that may have to wait, for a
    store or a server, can have besides, for the async flavour::

        async def encode_async(self, payload) -> bytes
        async def decode_async(self, body, content_type=None) -> Any

    The async flavour then awaits these, and the blocking one still calls ``encode`` and
    ``decode``. An attribute that is None counts as none. A codec without them that says
    ``blocking = True``, or that keeps one with them in an attribute and says nothing, runs whole
    in a worker thread there (eight of them for a connection). Others hold the event loop as long
    as they take. :mod:`acemq_amqp.codecs.waiting` is how a wrapper hands both on.
    """

    @property
    def content_type(self) -> str:
        """What its bodies are published as."""

    def encode(self, payload: Any) -> bytes:
        """The body for a payload.

        :raises EncodeError: the payload cannot be written in this format
        """

    def decode(self, body: bytes, content_type: str | None = None) -> Any:
        """The payload of a body.

        :param content_type: as it was sent, or None
        :raises DecodeError: the body is not of this format
        :raises FatalError: trying again cannot help, and no other codec can
        """

    def can_decode(self, content_type: str | None) -> bool:
        """Whether this codec claims bodies of that content type."""
