"""One way through the proxy: bytes from one socket to another, in whatever weather there is.

A thread reads and a thread writes, with a bounded number of bytes between them, so that a delay
costs no throughput and a writer that is slow is felt by the sender. The sockets must have a
time-out: no thread may sit for ever in a call on a socket that another thread wants to close.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Callable

_CHUNK = 64 * 1024
_BETWEEN = 4 * 1024 * 1024


class Weather:
    """What happens to bytes at present, the same for all connections of a proxy."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.held = False
        self.swallows = False
        self.delay = 0.0
        self.rate = 0.0

    def change(self, **values: float | bool) -> None:
        with self.changed:
            for name, value in values.items():
                setattr(self, name, value)
            self.changed.notify_all()

    def wait_while_held(self) -> None:
        with self.changed:
            self.changed.wait_for(lambda: not self.held)

    def portion(self) -> int:
        """How many bytes may go at once: a twentieth of a second's, where there is a rate."""
        return max(1, int(self.rate / 20)) if self.rate else _CHUNK

    def dawdle(self, size: int) -> None:
        """Takes the time that so many bytes take at the rate there is."""
        if self.rate:
            time.sleep(size / self.rate)


class Pipe:
    """Passes on what ``source`` sends to ``sink``, until either is closed.

    :param ended: called once, when nothing more will pass
    """

    def __init__(
        self,
        source: socket.socket,
        sink: socket.socket,
        weather: Weather,
        ended: Callable[[], None],
    ) -> None:
        self._source, self._sink, self._weather, self._ended = source, sink, weather, ended
        self._swallows = False
        self._changed = threading.Condition()
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._size = 0
        self._threads = [
            threading.Thread(target=work, name="proxy pipe", daemon=True)
            for work in (self._read, self._write)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Waits until both threads are gone; its sockets must have been closed."""
        for thread in self._threads:
            thread.join()

    def swallow(self) -> None:
        """From now on what comes is read and forgotten, and an end is not passed on."""
        with self._changed:
            self._swallows = True
            # The end of the stream stays: the writer must not wait for what has come already.
            self._waiting = deque(entry for entry in self._waiting if not entry[1])
            self._size = 0
            self._changed.notify_all()

    def _read(self) -> None:
        chunk = b"more"
        while chunk:
            self._weather.wait_while_held()
            chunk = _received(self._source)
            self._put(chunk)

    def _put(self, chunk: bytes) -> None:
        """An empty chunk is the end of the stream."""
        with self._changed:
            self._changed.wait_for(lambda: self._size < _BETWEEN or self._swallows)
            if self._swallows and chunk:
                return
            self._waiting.append((time.monotonic() + self._weather.delay, chunk))
            self._size += len(chunk)
            self._changed.notify_all()

    def _take(self) -> tuple[float, bytes]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting)
            due, chunk = self._waiting.popleft()
            self._size -= len(chunk)
            self._changed.notify_all()
            return due, chunk

    def _write(self) -> None:
        with contextlib.suppress(OSError):
            self._pass_all()
            if not self._swallows:
                self._sink.shutdown(socket.SHUT_WR)
        self.swallow()
        self._ended()

    def _pass_all(self) -> None:
        while True:
            due, chunk = self._take()
            time.sleep(max(0.0, due - time.monotonic()))
            self._weather.wait_while_held()
            if not chunk:
                return
            self._send(chunk)

    def _send(self, chunk: bytes) -> None:
        unsent = memoryview(chunk)
        while unsent and not self._swallows:
            with contextlib.suppress(TimeoutError):
                sent = self._sink.send(unsent[: self._weather.portion()])
                self._weather.dawdle(sent)
                unsent = unsent[sent:]


def _received(source: socket.socket) -> bytes:
    while True:
        try:
            return source.recv(_CHUNK)
        except TimeoutError:
            continue
        except OSError:
            return b""
