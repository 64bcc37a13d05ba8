"""The tap on the socket: our own protocol under the driver's reader and writer.

Every chunk goes through the tap first; its events go to the listener at once, and only
what is left goes on to the driver, which thus is never ahead of us. Frames of ours are
written to the same socket transport, whole, between the driver's writes. The stream ends
once: by the broker's close, the end of the bytes, an error of the socket, a broken frame,
or silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol, cast

from acemq_amqp.transports.wire.events import ConnectionClosed, WireEvent

from acemq_amqp.transports.wire.tap import Tap, WireError

#: bytes that wait for the socket before publishes are held back in their ledger, where
#: they can still be withdrawn
_HIGH_WATER = 256 * 1024


class Listener(Protocol):
    """Who is told what the stream brings."""

    def received(self, events: Sequence[WireEvent]) -> None: ...

    def writable(self) -> None:
        """The socket takes bytes again."""

    def ended(self, cause: BaseException | None) -> None:
        """Nothing will be read or written any more. Called once."""


class TapStream(asyncio.StreamReaderProtocol):
    """The socket of one connection.

    :ivar open: frames may be written
    :ivar paused: the socket is slow; what can wait should wait
    :ivar farewell: the broker's Connection.Close, once it came
    :ivar heard: when bytes last came, by the loop's clock
    """

    def __init__(self, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(reader, loop=loop)
        self.tap = Tap()
        self.open = False
        self.paused = False
        self.farewell: ConnectionClosed | None = None
        self.heard = loop.time()
        self.over = loop.create_future()
        self._clock = loop.time
        self._socket: asyncio.Transport | None = None
        self._listener: Listener | None = None
        self._ended = False

    def listen(self, listener: Listener) -> None:
        """Tells the listener from now on; at once, where the stream has ended already."""
        self._listener = listener
        if self._ended:
            listener.ended(None)

    def write(self, frames: bytes) -> None:
        """Writes whole frames, unless the stream has ended."""
        if self.open and self._socket is not None:
            self._socket.write(frames)

    def abort(self, cause: BaseException | None = None) -> None:
        """Drops the socket and what waits in it."""
        self._end(cause)
        if self._socket is not None:
            self._socket.abort()

    # ------------------------------------------------------------ called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._socket = cast(asyncio.Transport, transport)
        self._socket.set_write_buffer_limits(high=_HIGH_WATER)
        self.open = True

    def data_received(self, data: bytes) -> None:
        self.heard = self._clock()
        try:
            events, passed = self.tap.feed(data)
        except WireError as broken:
            self.abort(broken)
            return
        if events:
            self._tell(events)
        if passed:
            super().data_received(passed)

    def eof_received(self) -> bool | None:
        keep = super().eof_received()
        self._end(None)
        return keep

    def pause_writing(self) -> None:
        super().pause_writing()
        self.paused = True

    def resume_writing(self) -> None:
        super().resume_writing()
        self.paused = False
        if self._listener is not None:
            self._listener.writable()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._end(exc)
        if not self.over.done():
            self.over.set_result(None)

    # ------------------------------------------------------------ inside

    def _tell(self, events: list[WireEvent]) -> None:
        if self._listener is not None and not self._ended:
            self._listener.received(events)
        if type(events[-1]) is ConnectionClosed:  # nothing follows it
            self.farewell = events[-1]
            self._end(None)

    def _end(self, cause: BaseException | None) -> None:
        self.open = False
        if self._ended:
            return
        self._ended = True
        if self._listener is not None:
            self._listener.ended(cause)
