"""One connection through the proxy: two sockets, and a pipe each way."""

from __future__ import annotations

import contextlib
import socket
import threading

from tests.support.pipe import Pipe, Weather

_CALLS_END_WITHIN = 0.2
_RESET_ON_CLOSE = b"\x01\0\0\0\0\0\0\0"


class Passage:
    """Passes bytes both ways from the moment it is made, until both ways have ended."""

    def __init__(self, client: socket.socket, broker: socket.socket, weather: Weather) -> None:
        self._ends = (client, broker)
        for end in self._ends:
            end.settimeout(_CALLS_END_WITHIN)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lock = threading.Lock()
        self._ways = 2
        self._pipes = (
            Pipe(client, broker, weather, self._way_ended),
            Pipe(broker, client, weather, self._way_ended),
        )
        if weather.swallows:
            self.swallow()
        for pipe in self._pipes:
            pipe.start()

    @property
    def over(self) -> bool:
        """Whether nothing more passes, either way."""
        return self._ways == 0

    def swallow(self) -> None:
        """Lets all that comes vanish, for good, with the end of either side."""
        for pipe in self._pipes:
            pipe.swallow()

    def half_open(self) -> None:
        """Resets the broker's end; the client is not told."""
        self.swallow()
        reset(self._ends[1])

    def orphan(self) -> None:
        """Resets the client's end; the broker is not told."""
        self.swallow()
        reset(self._ends[0])

    def cut(self) -> None:
        """Resets both ends."""
        self.swallow()
        for end in self._ends:
            reset(end)

    def join(self) -> None:
        """Waits for the threads of a passage that was cut."""
        for pipe in self._pipes:
            pipe.join()

    def _way_ended(self) -> None:
        with self._lock:
            self._ways -= 1
        if self.over:
            for end in self._ends:
                end.close()


def reset(end: socket.socket) -> None:
    """Closes with RST instead of FIN. A thread that waits in recv is woken."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        end.shutdown(socket.SHUT_RD)
    end.close()
