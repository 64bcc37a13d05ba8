"""The tap on the socket: our own protocol under the driver's reader and writer.

Every chunk goes through the tap first; its events go to the listener at once, and only
what is left goes on to the driver, which thus is never ahead of us. Frames of ours are
written to the same socket transport, whole, between the driver's writes. The stream ends
once: by the broker's close, the end of the bytes, an error of the socket, a broken frame,
or silence. A driver that met such an end by itself would fill the log with it; so the
listener closes the driver, and only then the driver's own side of the stream is ended.
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
#: the frame of connection.close-ok
_CLOSE_OK = b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x33\xce"


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
    :ivar over: done when the socket is gone
    :ivar driver_leads: the driver opens or closes the connection, and must see how it ends
    """

    def __init__(self, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(reader, loop=loop)
        self.tap = Tap()
        self.open = False
        self.paused = False
        self.farewell: ConnectionClosed | None = None
        self.heard = loop.time()
        self.over: asyncio.Future[None] = loop.create_future()
        self.driver_leads = True
        self._clock = loop.time
        self._socket: asyncio.Transport | None = None
        self._listener: Listener | None = None
        self._ended = False
        self._withheld: tuple[Exception | None] | None = None

    def listen(self, listener: Listener) -> None:
        """Tells the listener from now on; at once, where the stream has ended already."""
        self._listener = listener
        self.driver_leads = False
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

    def release(self) -> None:
        """Ends the driver's side too, once the driver is closed."""
        self.driver_leads = True
        if self._withheld is not None:
            (exc,), self._withheld = self._withheld, None
            super().connection_lost(exc)

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
        if passed and (self.driver_leads or not self._ended):
            super().data_received(passed)

    def eof_received(self) -> bool | None:
        if self.driver_leads:
            return super().eof_received()
        self.abort()
        return None

    def pause_writing(self) -> None:
        super().pause_writing()
        self.paused = True

    def resume_writing(self) -> None:
        super().resume_writing()
        self.paused = False
        if self._listener is not None:
            self._listener.writable()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.driver_leads and not self._ended and exc is None:
            self.driver_leads = True  # nobody else closes a socket just so
            self._end(ConnectionError("the driver gave it up; aiormq's log says why, at DEBUG"))
        self._end(exc)
        if self.driver_leads:
            super().connection_lost(exc)
        else:
            self._withheld = (exc,)
        if not self.over.done():
            self.over.set_result(None)

    # ------------------------------------------------------------ inside

    def _tell(self, events: list[WireEvent]) -> None:
        if self._listener is not None and not self._ended:
            self._listener.received(events)
        if type(events[-1]) is ConnectionClosed:  # nothing follows it
            self.farewell = events[-1]
            self._part()

    def _part(self) -> None:
        """Answers the broker's close, where the driver will not."""
        if not self.driver_leads and self._socket is not None and not self._ended:
            self._socket.write(_CLOSE_OK)
            self._socket.close()
        self._end(None)

    def _end(self, cause: BaseException | None) -> None:
        self.open = False
        if self._ended:
            return
        self._ended = True
        if self._listener is not None:
            self._listener.ended(cause)
