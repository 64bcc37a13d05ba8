"""Silence as a loss: two heartbeats without a byte end the connection.

The driver waits for three and then some, and counts what reaches it. The stream knows
better when bytes last came, so this watch looks at it twice a heartbeat.
"""

from __future__ import annotations

import asyncio

from acemq_amqp.transports.aiopika.tap_stream import TapStream


class Liveness:
    """Watches one stream until it is stopped.

    :param heartbeat: seconds, as agreed with the broker
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, stream: TapStream, heartbeat: int) -> None:
        self._loop = loop
        self._stream = stream
        self._heartbeat = heartbeat
        self._timer = loop.call_later(heartbeat / 2, self._look)

    def stop(self) -> None:
        """Ends the watch."""
        self._timer.cancel()

    def _look(self) -> None:
        silence = self._loop.time() - self._stream.heard
        if silence > 2 * self._heartbeat:
            self._stream.abort(
                TimeoutError(
                    f"nothing came for {silence:.0f} s, with a heartbeat of {self._heartbeat} s; "
                    "the network dropped it, or this process held its event loop that long"
                )
            )
            return
        self._timer = self._loop.call_later(self._heartbeat / 2, self._look)
