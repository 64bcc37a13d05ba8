"""Trouble from the inside of a connection: frames that a broker answers by a close."""

from __future__ import annotations

from typing import Any

from acemq_amqp.transports.wire.frames import ack_frame

_NO_SUCH_TAG = 1_000_000


def acknowledge_nonsense(consumer: Any) -> None:
    """Acknowledges a delivery that never was, so that the broker closes the channel (406)."""
    write_on_channel(consumer, lambda channel: ack_frame(channel, _NO_SUCH_TAG, False))


def write_on_channel(consumer: Any, frame: Any) -> None:
    """Writes a frame on a consumer's channel, past everything that would not."""
    core = getattr(consumer, "_inner", consumer)
    core = getattr(core, "_core", core)
    subscription = core._attachment.subscription
    number = subscription._channel.number
    stream = getattr(subscription, "_stream", None)
    if stream is not None:
        stream.write(frame(number))
    else:
        session = subscription._session
        session.io.call(lambda: subscription._channel.write(frame(number)))
