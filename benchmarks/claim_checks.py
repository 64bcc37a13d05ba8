"""A claim check around a codec, beside that codec alone: each message is encoded and decoded once.

What only computes is measured by the thread's own time, in blocks of which the quickest counts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import Any, Final

from acemq_amqp.codec import Codec, JsonCodec
from acemq_amqp.patterns import ClaimCheckCodec, InMemoryClaimCheckStore
from acemq_stores import FilesystemClaimCheckStore
from benchmarks.queues import Load
from benchmarks.workload import PAYLOAD, encoded

_BLOCKS: Final = 20
_LARGE: Final = 4096
_STORED: Final = 65536


def _of_size(size: int) -> dict[str, Any]:
    line = {"sku": 4711, "count": 2, "note": "as the last time"}
    return {"order": 4711, "lines": [line] * (size // len(encoded(line)))}


def inline(size: int) -> Callable[[Load], float]:
    """A frame around what the codec gives."""
    return _computed(ClaimCheckCodec(JsonCodec(), InMemoryClaimCheckStore()), size)


def bare(size: int) -> Callable[[Load], float]:
    """The codec alone."""
    return _computed(JsonCodec(), size)


def stored(load: Load) -> float:
    """A file for each payload, on the disk before its key is given."""
    payload = _of_size(_STORED)
    with tempfile.TemporaryDirectory() as folder:
        store = FilesystemClaimCheckStore(folder)
        codec = ClaimCheckCodec(JsonCodec(), store, threshold=0)
        started = time.perf_counter()
        _work(codec, payload, load.messages)
        return time.perf_counter() - started


def bare_large(load: Load) -> float:
    """The codec alone, at the same payload."""
    started = time.perf_counter()
    _work(JsonCodec(), _of_size(_STORED), load.messages)
    return time.perf_counter() - started


def _computed(codec: Codec, size: int) -> Callable[[Load], float]:
    payload = _of_size(size) if size >= _LARGE else PAYLOAD

    def run(load: Load) -> float:
        times = max(1, load.messages // _BLOCKS)
        return min(_block(codec, payload, times) for _ in range(_BLOCKS)) / times * load.messages

    return run


def _block(codec: Codec, payload: Any, times: int) -> float:
    started = time.thread_time()
    _work(codec, payload, times)
    return time.thread_time() - started


def _work(codec: Codec, payload: Any, times: int) -> None:
    for _ in range(times):
        codec.decode(codec.encode(payload), codec.content_type)
