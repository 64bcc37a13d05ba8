"""Bytes as they are: the format of who has a format already."""

from __future__ import annotations

from typing import Any

from acemq_amqp.errors import EncodeError, kind_of


class BytesCodec:
    """Writes ``application/octet-stream``, and reads every body as its bytes."""

    content_type = "application/octet-stream"

    def encode(self, payload: Any) -> bytes:
        """The bytes themselves.

        :raises EncodeError: not bytes, a bytearray or a memoryview
        """
        if isinstance(payload, bytes | bytearray | memoryview):
            return bytes(payload)
        raise EncodeError(f"acemq: the bytes codec cannot encode {kind_of(payload)}: give bytes")

    def decode(self, body: bytes, content_type: str | None = None) -> bytes:
        """The body."""
        return bytes(body)

    def can_decode(self, content_type: str | None) -> bool:
        """Everything."""
        return True
