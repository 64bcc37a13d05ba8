"""A window's id: the same for the same result, whoever makes it and however often.

It is the SHA-256, in lower-case hex, of this JSON array in UTF-8, with no spaces and everything
beyond ASCII as ``\\uXXXX``::

    [query, generation, lane, key, start, end, revision]

``query``, ``lane`` and ``key`` are strings, the others integers; ``start`` and ``end`` are
milliseconds since the epoch.
"""

from __future__ import annotations

import json
from hashlib import sha256

from acemq_amqp.eventlog.store import Query


def window_id(query: Query, lane: str, key: str, start: float, end: float, revision: int) -> str:
    """The id of a window's result. ``start`` and ``end`` in seconds since the epoch."""
    spelled = json.dumps(
        [query.id, query.generation, lane, key, round(start * 1000), round(end * 1000), revision],
        separators=(",", ":"),
    )
    return sha256(spelled.encode()).hexdigest()
