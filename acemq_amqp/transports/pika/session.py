"""What the parts of one connection share: its thread, the driver's connection, the stream.

Everything here belongs to the I/O thread, except where it says otherwise. Parts that
keep state for a channel number put their receiver under it in ``routes``, before the
first byte that can be answered on it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from acemq_amqp.address import Address
from acemq_amqp.errors import BrokerError
from acemq_amqp.transports.pika.io_thread import IoThread, log
from acemq_amqp.transports.pika.tap_services import SharedStream, TapServices
from acemq_amqp.transports.wire.events import ConnectionClosed, WireEvent

if TYPE_CHECKING:
    from acemq_amqp.transports.pika.settling import Settlements

#: bytes that may wait for the socket before publishes are left in their ledger, where
#: they can still be withdrawn
WAITING_BYTES = 128 * 1024


class Session:
    """One connection's shared state.

    :param io: the thread
    :param address: where it leads
    """

    def __init__(self, io: IoThread, address: Address) -> None:
        self.io = io
        self.address = address
        self.routes: dict[int, Callable[[WireEvent], None]] = {}
        self.services: TapServices
        self.connection: Any = None
        self.frame_max = 131072
        #: publishes that found no room in the stream look again at the end of a turn
        self.crowded: set[Callable[[], None]] = set()
        #: settlements of the channels that are open
        self.living: set[Settlements] = set()
        #: we are closing it: no new messages, and its end is no loss
        self.closing = False
        #: the broker's words when it closed the connection
        self.farewell: ConnectionClosed | None = None
        self._lost: Callable[[], BrokerError] | None = None

    # ------------------------------------------------------------ any thread

    @property
    def lost(self) -> bool:
        """Whether the connection is gone, or closed by us."""
        return self._lost is not None

    def loss(self) -> BrokerError:
        """A new error that says why the connection is gone."""
        return self.io.refusal() if self._lost is None else self._lost()

    # ------------------------------------------------------------ the I/O thread

    @property
    def stream(self) -> SharedStream:
        protocol = self.services.protocol
        assert protocol is not None and protocol.stream is not None
        return protocol.stream

    @property
    def room(self) -> int:
        """Bytes that publishes may still put into the stream."""
        return WAITING_BYTES - self.stream.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Adds frames to this turn's write."""
        self.stream.write(data)

    def make_room(self) -> None:
        """Lets who found no room in the stream look again."""
        if self.crowded and not self.lost and self.room > 0:
            waiting, self.crowded = self.crowded, set()
            for flush in waiting:
                guarded(flush)

    def lose(self, error: Callable[[], BrokerError]) -> None:
        """The connection is gone: every delivery is stale, every further call refused."""
        self._lost = self.io.refusal = error
        for settlements in tuple(self.living):
            settlements.close()


def guarded(callback: Callable[..., None], *given: Any) -> None:
    """Calls back; an error of the callback is logged and does not harm the connection."""
    try:
        callback(*given)
    except Exception:
        log.exception("acemq: a callback failed on the I/O thread: %r", callback)
