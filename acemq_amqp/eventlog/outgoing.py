"""A push to a log that waits in an outbox: windows, and whatever else is written with a position.

It is the very message that :meth:`Log.push` sends, checked and encoded; a relay publishes it
under the same id until it is confirmed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acemq_amqp.codec import Codec
from acemq_amqp.envelope import Envelope
from acemq_amqp.eventlog.records import WindowInfo, checked_lane, lane_headers, window_headers
from acemq_amqp.patterns.outbox import Origin, OutboxRecord, record


def push_record(
    origin: Origin,
    stream: str,
    lane: str,
    payload: Any,
    *,
    now: float,
    id: str = "",
    window: WindowInfo | None = None,
    headers: Mapping[str, Any] | None = None,
    codec: Codec | None = None,
) -> OutboxRecord:
    """A message for a lane of a log. Records of one lane go out in the order of their commits.

    :param origin: a connection, whose codec and origin it has; nothing is sent on it
    :param stream: where the lane is, see :meth:`Log.stream_of`
    :param now: its time of publishing, in seconds since the epoch
    :param id: other than a fresh one
    :param window: what it is the result of
    :raises ConfigurationError: something in it cannot travel, or cannot be stored
    :raises EncodeError: the codec cannot write the payload
    """
    told = {} if window is None else window_headers(window)
    values = {**(headers or {}), **lane_headers(checked_lane(lane), now), **told}
    return record(
        origin,
        "",
        stream,
        payload,
        envelope=Envelope(id=id, headers=values),
        codec=codec,
        ordering_key=f"{stream} {lane}",
    )
