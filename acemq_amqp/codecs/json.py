"""JSON, the default format: compact, UTF-8, and never NaN."""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, NoReturn
from uuid import UUID

from acemq_amqp.codecs.contenttype import claims
from acemq_amqp.errors import DecodeError, EncodeError, kind_of


class JsonCodec:
    """Writes and reads ``application/json``.

    Dataclasses are written through their fields, a UUID as its text, an Enum as its value.
    NaN and the infinities are refused both ways, for other languages cannot read them. So
    are datetimes, Decimals, sets and bytes, which JSON has no one spelling for: give the text
    or number that the reader expects, such as ``moment.isoformat()``.
    """

    content_type = "application/json"

    def encode(self, payload: Any) -> bytes:
        """The payload as compact UTF-8.

        :raises EncodeError: JSON cannot say it, or it contains itself
        """
        try:
            return _encoder.encode(payload).encode()
        except EncodeError:
            raise
        except Exception as error:
            # A payload's own properties may raise anything.
            raise EncodeError(
                f"acemq: {kind_of(payload)} cannot be encoded as JSON "
                f"({type(error).__name__}: {error}): give plain values, or choose another codec"
            ) from error

    def decode(self, body: bytes, content_type: str | None = None) -> Any:
        """The payload of a body.

        :raises DecodeError: the body is not JSON, or holds NaN or an infinity
        """
        try:
            encoded = bytes(body)
            return _decode(encoded.decode(json.detect_encoding(encoded), "surrogatepass"))
        except Exception as error:
            raise DecodeError(
                f"acemq: a body of {len(body)} bytes is not JSON ({type(error).__name__}: {error})"
                ": look at what its publisher sends"
            ) from error

    def can_decode(self, content_type: str | None) -> bool:
        """``application/json``, ``text/json``, anything ``+json``, and no content type."""
        return not content_type or claims(
            content_type, ("application/json", "text/json"), containing="+json"
        )


def _plain(value: object) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    raise EncodeError(
        f"acemq: JSON has no spelling for {kind_of(value)}: give the text or number that "
        "the reader expects, or choose another codec"
    )


_encoder = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
)


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is beyond what a float can hold")
    return number


#: made once: ``json.loads`` would make one for every body
_decode = json.JSONDecoder(parse_constant=_refused, parse_float=_finite).decode
