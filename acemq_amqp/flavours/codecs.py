"""How a task waits for a codec that may have to: one that keeps payloads in a store.

Most codecs only compute, and are called as they are. One with ``encode_async`` and
``decode_async`` is awaited; one that says ``blocking = True``, or wraps such a one and knows
nothing of it, runs whole in a worker thread. Either way the loop goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from acemq_amqp.codec import Codec
from acemq_amqp.codecs.waiting import blocks
from acemq_amqp.core.ports import Call
from acemq_amqp.flavours.calls import TaskCalls
from acemq_amqp.flavours.workers import WorkerThreads

#: Blocking codecs at work at once, for all of a connection.
_THREADS = 8


@dataclass(frozen=True, slots=True)
class AwaitedCodec:
    """The two calls of one codec, to be awaited."""

    encode: Call
    decode: Call


class TaskCodecs:
    """Finds out which codecs have to be waited for, and how.

    :param calls: binds the coroutine functions of a codec
    """

    def __init__(self, calls: TaskCalls) -> None:
        self._calls = calls
        self._workers = WorkerThreads(_THREADS, "acemq-codec")

    def waiting(self, codec: Codec) -> AwaitedCodec | None:
        """The codec's calls; None where it never waits."""
        encode, decode = self._call(codec, "encode"), self._call(codec, "decode")
        if encode is None and decode is None:
            return None
        inline = self._inline
        return AwaitedCodec(encode or inline(codec.encode), decode or inline(codec.decode))

    def stop(self) -> None:
        """Lets idle worker threads end."""
        self._workers.stop()

    def _call(self, codec: Codec, name: str) -> Call | None:
        awaited = getattr(codec, f"{name}_async", None)
        if awaited is not None:
            return self._inline(awaited)
        return self._threaded(getattr(codec, name)) if blocks(codec) else None

    def _inline(self, function: Callable[..., Any]) -> Call:
        return self._calls.bind(function, inline=True)

    def _threaded(self, function: Callable[..., Any]) -> Call:
        async def in_a_thread(*args: Any) -> Any:
            return await self._workers.run(function, *args)

        return self._inline(in_a_thread)
