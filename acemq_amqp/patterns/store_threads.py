"""The threads in which the async flavour calls a store: a few, the store's own.

However many codecs share a store, and however long it stalls, it holds up these threads
and nothing else: no event loop, no other store, no name look-up.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Final

from acemq_amqp.flavours.workers import WorkerThreads

#: Calls of one store at once.
_THREADS: Final = 8

_of: Final[dict[int, WorkerThreads]] = {}
_guard: Final = threading.Lock()


def threads_of(store: Any) -> WorkerThreads:
    """The threads of a store: the same for all who ask, until the store is gone."""
    with _guard:
        known = _of.get(id(store))
        if known is not None:
            return known
        threads = WorkerThreads(_THREADS, "acemq-store")
        try:
            weakref.finalize(store, _forget, id(store)).atexit = False
        except TypeError:  # a store that cannot be watched: each codec has threads of its own
            return threads
        _of[id(store)] = threads
        return threads


def _forget(number: int) -> None:
    threads = _of.pop(number, None)
    if threads is not None:
        threads.stop()
