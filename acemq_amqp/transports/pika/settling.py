"""Deliveries of one channel, and what became of them.

The ledger decides which frames are due; this writes them, together, at most once a
turn. Its life is the channel's: afterwards every settlement is stale and writes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from acemq_amqp.core.ports import Arrival
from acemq_amqp.transports.pika.session import Session
from acemq_amqp.transports.wire.acks import GATHERING, AckLedger, gathered
from acemq_amqp.transports.wire.events import Delivered, Got


class Settlements:
    """What a delivery is settled on, as ports.Settling promises.

    :param write: writes frames on the channel
    """

    def __init__(
        self, session: Session, channel: int, write: Callable[[bytes], None], prefetch: int = 1
    ) -> None:
        self._session = session
        self._write = write
        self._ledger = AckLedger(channel, threading.Lock())
        self._live = True
        self._enough = gathered(prefetch)
        self._scheduled = False
        self._urgent = False
        session.living.add(self)

    # ------------------------------------------------------------ any thread

    @property
    def live(self) -> bool:
        return self._live

    @property
    def unsettled(self) -> int:
        return self._ledger.unsettled

    def ack(self, tag: int) -> bool:
        return self._ledger.ack(tag) and self._fall_due()

    def requeue(self, tag: int) -> bool:
        return self._ledger.requeue(tag) and self._fall_due()

    def _fall_due(self) -> bool:
        if self._ledger.due >= self._enough:
            if not self._urgent:
                self._urgent = True
                self._session.io.call(self.flush)
        elif not self._scheduled:
            self._scheduled = True
            self._session.io.call(self._in_time)
        return True

    # ------------------------------------------------------------ the I/O thread

    def arrival(self, event: Delivered | Got) -> Arrival:
        """Notes a delivery as unsettled, and gives it as the core takes it."""
        self._ledger.delivered(event.tag)
        return Arrival(
            self,
            event.tag,
            event.redelivered,
            event.exchange,
            event.routing_key,
            event.properties,
            event.body,
        )

    def _in_time(self) -> None:
        self._session.io.loop.call_later(GATHERING, self._time_is_up)

    def _time_is_up(self) -> None:
        self._scheduled = False
        if self._live:
            self.flush()

    def flush(self) -> None:
        """Writes the settlements that fell due."""
        self._urgent = False
        frames = self._ledger.collect()
        if frames:
            self._write(frames)

    def close(self) -> None:
        """The channel is gone: all that is unsettled is stale."""
        self._live = False
        self._ledger.close()
        self._session.living.discard(self)
