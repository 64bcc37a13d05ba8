"""Several formats behind one face: writes the first, reads all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from acemq_amqp.codecs import Codec
from acemq_amqp.codecs.waiting import blocks, decode_waiting, encode_waiting, waits
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
        reasons: list[str] = []
        for codec in self._claiming(content_type, reasons):
            try:
                return codec.decode(body, content_type)
            except Exception as error:
                reasons.append(_reason(codec, error))
        raise _none_could(body, content_type, reasons)

    def can_decode(self, content_type: str | None) -> bool:
        """What any of them claims; and no content type."""
        return not content_type or any(each.can_decode(content_type) for each in self._codecs)

    # ------------------------------------------------------------ where one of them waits

    @property
    def blocking(self) -> bool:
        """Whether one of them has to run in a thread; then all do."""
        return any(blocks(each) for each in self._codecs)

    @property
    def encode_async(self) -> Callable[[Any], Awaitable[bytes]] | None:
        """:meth:`encode`, awaiting the first codec; None where it never waits."""
        return self._encode_async if waits(self._codecs[0]) and not self.blocking else None

    @property
    def decode_async(self) -> Callable[..., Awaitable[Any]] | None:
        """:meth:`decode`, awaiting those that wait; None where none does."""
        waiting = any(waits(each) for each in self._codecs) and not self.blocking
        return self._decode_async if waiting else None

    async def _encode_async(self, payload: Any) -> bytes:
        return await encode_waiting(self._codecs[0], payload)

    async def _decode_async(self, body: bytes, content_type: str | None = None) -> Any:
        reasons: list[str] = []
        for codec in self._claiming(content_type, reasons):
            try:
                return await decode_waiting(codec, body, content_type)
            except Exception as error:
                reasons.append(_reason(codec, error))
        raise _none_could(body, content_type, reasons)

    def _claiming(self, content_type: str | None, reasons: list[str]) -> Iterator[Codec]:
        for codec in self._codecs:
            if not content_type or codec.can_decode(content_type):
                yield codec
            else:
                reasons.append(f"{_named(codec)} does not claim it")


def _reason(codec: Codec, error: Exception) -> str:
    """Why a codec could not; raises what no other codec can mend."""
    if isinstance(error, AceMQError) and not isinstance(error, DecodeError):
        raise error
    return f"{_named(codec)}: {error}"


def _none_could(body: bytes, content_type: str | None, reasons: list[str]) -> DecodeError:
    return DecodeError(
        f"acemq: no codec could decode a body of {len(body)} bytes with content type "
        f"{content_type!r}: {'; '.join(reasons)}"
    )


def _named(codec: Codec) -> str:
    return type(codec).__name__
