"""What handlers made, kept with their messages for whoever sees those again."""

from __future__ import annotations

import logging
from typing import Any

from acemq_amqp.codec import Codec, JsonCodec
from acemq_amqp.core.checks import checked_codec

log = logging.getLogger("acemq_amqp")


class Results:
    """How results are kept. One that cannot be, or cannot be read again, is told in the log.

    :param codec: JSON where it is None
    :raises ConfigurationError: no codec
    """

    def __init__(self, codec: Codec | None) -> None:
        self._codec = JsonCodec() if codec is None else checked_codec(codec)

    def encoded(self, key: str, result: Any) -> bytes | None:
        """A result as it is kept; None where there is none to keep."""
        if result is None:
            return None
        try:
            return self._codec.encode(result)
        except Exception as failure:  # the work is done, whatever a codec raises
            log.warning("acemq: the result of %r is not kept: %s", key, failure)
            return None

    def decoded(self, key: str, kept: bytes | None) -> Any:
        """A result as it was made; None where none was kept."""
        try:
            return None if kept is None else self._codec.decode(kept)
        except Exception as failure:
            log.warning("acemq: the result kept of %r cannot be read: %s", key, failure)
            return None
