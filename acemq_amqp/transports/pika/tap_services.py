"""The place where a byte stream is shared between the driver and us.

The driver takes its I/O from an object handed to it as `custom_ioloop`. Ours puts a
protocol of our own between the socket's transport and the driver's protocol: what
comes is fed to the tap, which keeps content for us and passes the rest on; what goes,
the driver's methods and our frames alike, is gathered in order and written once a
turn. The driver sees an ordinary stream. This module is the only one that leans on
the shape of the driver's I/O interface.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

from pika.adapters.select_connection import IOLoop
from pika.adapters.utils.nbio_interface import (
    AbstractIOReference,
    AbstractStreamProtocol,
    AbstractStreamTransport,
)
from pika.adapters.utils.selector_ioloop_adapter import SelectorIOServicesAdapter

from acemq_amqp.transports.tls import AnsweredInTls
from acemq_amqp.transports.wire.events import WireEvent
from acemq_amqp.transports.wire.tap import Tap, WireError

log = logging.getLogger("acemq_amqp.transports.pika")

#: bytes asked of the socket at a time; the driver's own 4096 cost a system call per dozen messages
RECEIVE_BYTES = 256 * 1024


class SharedStream(AbstractStreamTransport):  # type: ignore[misc]
    """The outgoing side: gathers writes in order, hands them over at the end of a turn."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._gathered: list[bytes] = []
        self.closed = False
        #: why we dropped it, if we did
        self.dropped: str | None = None

    def write(self, data: bytes) -> None:
        self._gathered.append(data)

    def flush(self) -> None:
        """Hands over what was gathered, in one piece."""
        if self._gathered:
            data = b"".join(self._gathered)
            self._gathered.clear()
            if not self.closed:
                self._transport.write(data)

    def abort(self) -> None:
        if not self.closed:
            self._transport.abort()

    def drop(self, reason: str) -> None:
        """Ends the connection at once, from our side."""
        self.dropped = reason
        self.abort()

    def get_protocol(self) -> Any:
        return self._transport.get_protocol()

    def get_write_buffer_size(self) -> int:
        """Bytes that the socket has not taken yet."""
        return int(self._transport.get_write_buffer_size())


class TappedProtocol(AbstractStreamProtocol):  # type: ignore[misc]
    """The incoming side: content becomes events, the rest goes to the driver.

    :param driver: the driver's own protocol
    :param receive: takes the events of one chunk, in order
    """

    def __init__(
        self, driver: Any, receive: Callable[[list[WireEvent]], None], failed: Callable[[str], None]
    ) -> None:
        self.driver = driver
        self.tap = Tap()
        self.stream: SharedStream | None = None
        #: what ended the stream, which the driver tells as a text only
        self.lost_by: BaseException | None = None
        #: when bytes last came, by the monotonic clock
        self.heard = time.monotonic()
        self._receive = receive
        self._failed = failed

    def connection_made(self, transport: Any) -> None:
        # Heeded by this driver's transport, ignored by one that knows it no longer.
        transport._MAX_RECV_BYTES = RECEIVE_BYTES
        self.stream = SharedStream(transport)
        self.driver.connection_made(self.stream)

    def connection_lost(self, error: BaseException | None) -> None:
        if self.stream is not None:
            self.stream.closed = True
            if error is None and self.stream.dropped:
                # The driver knows of no abort but its own, and wants a reason.
                error = ConnectionAbortedError(self.stream.dropped)
        self.lost_by = AnsweredInTls() if self.tap.speaks_tls else error
        self.driver.connection_lost(error)

    def eof_received(self) -> bool:
        return bool(self.driver.eof_received())

    def data_received(self, data: bytes) -> None:
        self.heard = time.monotonic()
        try:
            events, passed = self.tap.feed(data)
        except WireError as error:
            self._failed(str(error))
            return
        if events:
            self._receive(events)
        if passed:
            self.driver.data_received(passed)


class TapServices(SelectorIOServicesAdapter):  # type: ignore[misc]
    """The driver's I/O services, with the tap on every stream they make.

    :param receive: takes the events of one chunk, in order; it must not raise
    """

    def __init__(self, loop: IOLoop, receive: Callable[[list[WireEvent]], None]) -> None:
        super().__init__(loop)
        self._receive_events = receive
        self.protocol: TappedProtocol | None = None

    def create_streaming_connection(
        self,
        protocol_factory: Callable[[], Any],
        sock: socket.socket,
        on_done: Callable[[Any], None],
        ssl_context: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
    ) -> AbstractIOReference:
        def make() -> TappedProtocol:
            self.protocol = TappedProtocol(protocol_factory(), self._receive_events, self._broke)
            return self.protocol

        def done(result: Any) -> None:
            # The driver goes on with its own protocol, as if ours were not there.
            if isinstance(result, tuple) and self.protocol is not None:
                result = (self.protocol.stream, self.protocol.driver)
            on_done(result)

        return super().create_streaming_connection(
            make, sock, done, ssl_context=ssl_context, server_hostname=server_hostname
        )

    def flush(self) -> None:
        """Writes what this turn gathered."""
        if self.protocol is not None and self.protocol.stream is not None:
            self.protocol.stream.flush()

    def _broke(self, reason: str) -> None:
        log.error("acemq: unreadable bytes from the broker, connection dropped: %s", reason)
        self.drop(reason)

    def tuned(self, frame_max: int) -> None:
        """Tells the tap the size of frames that was agreed."""
        if self.protocol is not None:
            self.protocol.tap.frame_max = frame_max

    @property
    def streams(self) -> bool:
        """Whether there is a stream to :meth:`drop`."""
        return self.protocol is not None and self.protocol.stream is not None

    @property
    def heard(self) -> float:
        """When bytes last came, by the monotonic clock."""
        return 0.0 if self.protocol is None else self.protocol.heard

    @property
    def lost_by(self) -> BaseException | None:
        """What ended the stream, if it has ended by an error."""
        return None if self.protocol is None else self.protocol.lost_by

    def drop(self, reason: str) -> None:
        """Ends the stream at once, if there is one."""
        if self.protocol is not None and self.protocol.stream is not None:
            self.protocol.stream.drop(reason)
