"""Codecs that may have to wait, and how a codec that wraps another hands that on.

A wrapper gives ``encode_async`` and ``decode_async`` where :func:`waits` says so of what it
wraps, and is ``blocking`` where :func:`blocks` says so. Without either, a claim check inside
of it would hold the event loop.
"""

from __future__ import annotations

from typing import Any

from acemq_amqp.codecs import Codec


def waits(codec: Codec) -> bool:
    """Whether a codec has calls to be awaited."""
    calls = (getattr(codec, name, None) for name in ("encode_async", "decode_async"))
    return any(call is not None for call in calls)


def blocks(codec: Codec) -> bool:
    """Whether a codec asks to run whole in a thread."""
    return bool(getattr(codec, "blocking", False))


async def encode_waiting(codec: Codec, payload: Any) -> bytes:
    """The body for a payload, awaited where the codec waits."""
    call = getattr(codec, "encode_async", None)
    body: bytes = codec.encode(payload) if call is None else await call(payload)
    return body


async def decode_waiting(codec: Codec, body: bytes, content_type: str | None = None) -> Any:
    """The payload of a body, awaited where the codec waits."""
    call = getattr(codec, "decode_async", None)
    if call is None:
        return codec.decode(body, content_type)
    return await call(body, content_type)
