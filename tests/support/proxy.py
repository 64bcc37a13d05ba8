"""A TCP proxy between a client and its broker that loses, delays and refuses on demand.

What a network does to a connection cannot be asked of the broker: bytes that vanish without a
word, an end that is gone while the other was never told, a port that nobody listens on. Connections
that swallowed bytes are broken streams and never heal; ``resume()`` is for those that come
afterwards, as it is in life once a middlebox has forgotten a connection.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

from tests.support.passage import Passage, reset
from tests.support.pipe import Weather
from tests.support.ports import free_port


class Proxy:
    """Listens on ``port`` of 127.0.0.1 and passes everything on to the target.

    :param target_port: the broker's port, on ``target_host``
    """

    def __init__(self, target_port: int, target_host: str = "127.0.0.1") -> None:
        self.port = free_port()
        self.accepted = 0
        self._target = (target_host, target_port)
        self._lock = threading.Lock()
        self._weather = Weather()
        self._open: list[Passage] = []
        self._listener: socket.socket | None = None
        self._listen()

    # ------------------------------------------------------------ what can go wrong

    def cut(self) -> None:
        """Resets every open connection at both ends; new ones pass."""
        for passage in self._passages():
            passage.cut()

    def blackhole(self) -> None:
        """Swallows all bytes both ways, of open connections and of new ones. Nobody is told."""
        self._set(swallows=True)
        for passage in self._passages():
            passage.swallow()

    def hold(self) -> None:
        """Passes nothing and reads nothing, so that senders feel it; nothing is lost."""
        self._set(held=True)

    def delay(self, seconds: float) -> None:
        """Passes every byte so many seconds late, each way."""
        self._set(delay=seconds)

    def throttle(self, bytes_per_second: float) -> None:
        """Passes no more than so many bytes a second, each way of each connection."""
        self._set(rate=bytes_per_second)

    def half_open(self) -> None:
        """Resets the broker's end of every open connection; the client is not told."""
        for passage in self._passages():
            passage.half_open()

    def orphan(self) -> None:
        """Resets the client's end of every open connection; the broker is not told."""
        for passage in self._passages():
            passage.orphan()

    def refuse(self) -> None:
        """Refuses new connections; open ones go on."""
        listener, self._listener = self._listener, None
        if listener is not None:
            # Shutting down wakes the thread that accepts; closing alone would not.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def resume(self) -> None:
        """Ends all of it: what is held goes on, and new connections are accepted and pass."""
        self._set(held=False, swallows=False, delay=0.0, rate=0.0)
        if self._listener is None:
            self._listen()

    def close(self) -> None:
        """Refuses and cuts, for good."""
        self.refuse()
        passages = self._passages()
        self.cut()
        self._set(held=False)
        for passage in passages:
            passage.join()

    # ------------------------------------------------------------ what a test may ask

    @property
    def connections(self) -> int:
        """How many connections are open through the proxy."""
        return len(self._passages())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ------------------------------------------------------------ inside

    def _set(self, **changes: float | bool) -> None:
        self._weather.change(**changes)

    def _passages(self) -> list[Passage]:
        with self._lock:
            self._open = [passage for passage in self._open if not passage.over]
            return list(self._open)

    def _listen(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(128)
        self._listener = listener
        threading.Thread(
            target=self._accept, args=(listener,), name=f"proxy {self.port}", daemon=True
        ).start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # closed by refuse()
            while True:
                client, _ = listener.accept()
                self._pass_on(client)

    def _pass_on(self, client: socket.socket) -> None:
        try:
            broker = socket.create_connection(self._target, 10.0)
        except OSError:
            reset(client)
            return
        with self._lock:
            self.accepted += 1
            self._open.append(Passage(client, broker, self._weather))
