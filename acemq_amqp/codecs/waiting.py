"""Codecs that may have to wait, and how a codec that wraps another hands that on.

A wrapper gives ``encode_async`` and ``decode_async`` where :func:`waits` says so of what it
wraps, and is ``blocking`` where :func:`blocks` says so. One that knows nothing of this runs whole
in a thread, lest a claim check inside of it hold the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from acemq_amqp.codecs import Codec

#: wrappers in wrappers that are looked through
_DEEPEST: Final = 5


def waits(codec: Codec) -> bool:
    """Whether a codec has calls to be awaited."""
    calls = (getattr(codec, name, None) for name in ("encode_async", "decode_async"))
    return any(call is not None for call in calls)


def blocks(codec: Codec) -> bool:
    """Whether a codec has to run whole in a thread.

    It asks for that; or it says nothing, has no calls to be awaited, and keeps a codec that has:
    a wrapper that knows nothing of waiting.
    """
    return _blocks(codec, _DEEPEST)


def _blocks(codec: Codec, deeper: int) -> bool:
    said = getattr(codec, "blocking", None)
    if said is not None or waits(codec) or not deeper:
        return bool(said)
    return any(waits(each) or _blocks(each, deeper - 1) for each in _kept_in(codec))


def _kept_in(codec: Codec) -> Iterator[Codec]:
    """The codecs that one keeps in its attributes, or in rows and mappings there."""
    slots = [name for kind in type(codec).__mro__ for name in _names(kind)]
    found = [*getattr(codec, "__dict__", {}).values(), *(getattr(codec, n, None) for n in slots)]
    for each in found:
        several = each.values() if isinstance(each, dict) else each
        items = several if isinstance(each, list | tuple | dict) else (each,)
        yield from (item for item in items if hasattr(item, "can_decode") and item is not codec)


def _names(kind: type) -> Iterable[str]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else slots


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
