"""What deliveries are settled on: one channel, from its opening to its end.

Settlements fall due in a ledger and wait a moment for others to go out with, runs of
them as one frame. Once the channel is gone, or its consumer was ended by the broker,
every delivery of it is stale and no frame for it reaches the socket.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from acemq_amqp.transports.aiopika.channels import LiveChannel
from acemq_amqp.transports.aiopika.tap_stream import TapStream
from acemq_amqp.transports.wire.acks import GATHERING, AckLedger, gathered


class SettlingChannel:
    """Settles deliveries of one channel, each at most once."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        stream: TapStream,
        channel: LiveChannel,
        prefetch: int = 1,
    ) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._stream = stream
        self._channel = channel
        self._ledger = AckLedger(channel.number, threading.Lock())
        self._live = True
        self._enough = gathered(prefetch)
        self._scheduled = False
        self._urgent = False

    @property
    def live(self) -> bool:
        """False once every unsettled delivery is stale."""
        return self._live

    @property
    def unsettled(self) -> int:
        """Deliveries that came and are not settled yet."""
        return self._ledger.unsettled

    def ack(self, tag: int) -> bool:
        """Acknowledges, together with others that fall due. Any thread."""
        return self._ledger.ack(tag) and self._due()

    def requeue(self, tag: int) -> bool:
        """Gives back to the queue. Any thread."""
        return self._ledger.requeue(tag) and self._due()

    def flush(self) -> None:
        """Writes the settlements that wait."""
        if self._channel.usable and self._stream.open and (frames := self._ledger.collect()):
            self._stream.write(frames)

    def retire(self) -> None:
        """Writes the settlements that wait, then makes every other delivery stale."""
        self.flush()
        self._live = False
        self._ledger.close()

    def _due(self) -> bool:
        if self._ledger.due >= self._enough:
            if not self._urgent:
                self._urgent = True
                self._soon(self._turn)
        elif not self._scheduled:
            self._scheduled = True
            self._soon(self._in_time)
        return True

    def _soon(self, call: Callable[[], object]) -> None:
        if threading.get_ident() == self._thread:
            self._loop.call_soon(call)
        else:
            self._loop.call_soon_threadsafe(call)

    def _in_time(self) -> None:
        self._loop.call_later(GATHERING, self._time_is_up)

    def _time_is_up(self) -> None:
        self._scheduled = False
        self._turn()

    def _turn(self) -> None:
        self._urgent = False
        if not self._stream.paused:  # else the stream calls when the socket takes bytes again
            self.flush()
