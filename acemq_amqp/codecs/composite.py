"""Several formats behind one face: writes the first, reads all of them."""

from __future__ import annotations

from typing import Any

from acemq_amqp.codecs import Codec
from acemq_amqp.errors import AceMQError, ConfigurationError, DecodeError


class CompositeCodec:
    """Encodes with its first codec, and decodes with whichever claims the content type.

    :param codecs: one or more, in the order in which they try a body
    :raises ConfigurationError: none given
    """

    def __init__(self, *codecs: Codec) -> None:
        if not codecs:
            raise ConfigurationError("acemq: a composite codec of no codecs: give one or more")
        self._codecs = codecs

    @property
    def content_type(self) -> str:
        """The first codec's."""
        return self._codecs[0].content_type

    def encode(self, payload: Any) -> bytes:
        """As the first codec encodes it.

        :raises EncodeError: the first codec cannot
        """
        return self._codecs[0].encode(payload)

    def decode(self, body: bytes, content_type: str | None = None) -> Any:
        """What the first codec makes of it that claims the content type and succeeds.

        Every codec tries a body without a content type.

        :raises DecodeError: none claims it, or all fail; lists every reason
        :raises FatalError: as a codec raised it; no further codec is asked
        """
        reasons = []
        for codec in self._codecs:
            if content_type and not codec.can_decode(content_type):
                reasons.append(f"{_named(codec)} does not claim it")
                continue
            try:
                return codec.decode(body, content_type)
            except Exception as error:
                if isinstance(error, AceMQError) and not isinstance(error, DecodeError):
                    raise
                reasons.append(f"{_named(codec)}: {error}")
        raise DecodeError(
            f"acemq: no codec could decode a body of {len(body)} bytes with content type "
            f"{content_type!r}: {'; '.join(reasons)}"
        )

    def can_decode(self, content_type: str | None) -> bool:
        """What any of them claims; and no content type."""
        return not content_type or any(each.can_decode(content_type) for each in self._codecs)


def _named(codec: Codec) -> str:
    return type(codec).__name__
