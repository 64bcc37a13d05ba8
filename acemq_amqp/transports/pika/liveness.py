"""Silence as a loss: two heartbeats without a byte end the connection.

The driver looks once a heartbeat and five seconds, and may take two looks. The stream knows when
bytes last came, so this watch looks at it twice a heartbeat.
"""

from __future__ import annotations

import time

from acemq_amqp.transports.pika.session import Session


class Liveness:
    """Watches one connection until it is stopped. Used on the I/O thread only.

    :param heartbeat: seconds, as agreed with the broker
    """

    def __init__(self, session: Session, heartbeat: int) -> None:
        self._session = session
        self._heartbeat = heartbeat
        self._timer = self._soon()

    def stop(self) -> None:
        """Ends the watch."""
        self._session.io.loop.remove_timeout(self._timer)

    def _soon(self) -> object:
        timer: object = self._session.io.loop.call_later(self._heartbeat / 2, self._look)
        return timer

    def _look(self) -> None:
        silence = time.monotonic() - self._session.services.heard
        if silence > 2 * self._heartbeat:
            self._session.services.drop(
                f"nothing came for {silence:.0f} s, with a heartbeat of {self._heartbeat} s; "
                "the network dropped it, or this process stood still that long"
            )
            return
        self._timer = self._soon()
