"""What was delivered on a channel and how it gets settled, with as few frames as may be.

Settlements fall due one by one, from any thread; the I/O side collects what has fallen due.
Where every delivery up to some tag has been settled, one frame with ``multiple`` says so;
it never reaches past a delivery that is still in somebody's hands. A tag that is unknown,
settled before, or of a channel that is gone gives no frame at all: on the wire it would
close the channel under its neighbours.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import AbstractContextManager
from typing import Any

from acemq_amqp.transports.wire.frames import ack_frame, nack_frame

#: Settlements wait so long for others to go out with, in seconds: a write costs more than they do.
GATHERING = 0.002


def gathered(prefetch: int) -> int:
    """How many settlements are worth a write before their time is up.

    A quarter of the prefetch, so that the broker sends on long before the consumer runs dry.
    """
    return max(1, prefetch // 4)


class AckLedger:
    """The deliveries of one channel, for as long as that channel lives.

    Every delivery of the channel must be told, in order. All calls may come from any thread
    when ``lock`` is a thread lock.

    :param lock: guards the ledger; held for moments, never while anything is called
    """

    def __init__(self, channel: int, lock: AbstractContextManager[Any]) -> None:
        self.channel = channel
        self._lock = lock
        self._live = True
        self._held: set[int] = set()
        self._acks: list[int] = []
        self._requeues: list[int] = []
        # Every tag below has been settled by whoever held it.
        self._floor = 1

    @property
    def live(self) -> bool:
        """False once the channel is gone: every tag is then stale."""
        return self._live

    @property
    def unsettled(self) -> int:
        """How many deliveries somebody still holds."""
        return len(self._held)

    @property
    def due(self) -> int:
        """How many settlements :meth:`collect` would write."""
        return len(self._acks) + len(self._requeues)

    @property
    def wanting(self) -> bool:
        """True where :meth:`collect` has something to write."""
        return bool(self._acks or self._requeues)

    def delivered(self, tag: int) -> None:
        """Notes a delivery. A no-op once closed."""
        with self._lock:
            if self._live:
                self._held.add(tag)

    def ack(self, tag: int) -> bool:
        """Marks a delivery for acknowledgement.

        :returns: False where the tag is stale, unknown or settled before; nothing is written then
        """
        return self._settle(tag, self._acks)

    def requeue(self, tag: int) -> bool:
        """Marks a delivery for being given back; otherwise as :meth:`ack`."""
        return self._settle(tag, self._requeues)

    def _settle(self, tag: int, due: list[int]) -> bool:
        with self._lock:
            if tag not in self._held:
                return False
            self._held.remove(tag)
            due.append(tag)
            return True

    def collect(self) -> bytes:
        """The frames for all that fell due since the last call."""
        with self._lock:
            acks, requeues = sorted(self._acks), sorted(self._requeues)
            self._acks.clear()
            self._requeues.clear()
            self._raise_floor(max(acks[-1:] + requeues[-1:], default=0))
            floor = self._floor
        # Given back first: an ack of everything up to a tag would take them with it.
        frames = [nack_frame(self.channel, tag) for tag in requeues]
        run = bisect_left(acks, floor)
        if run > 1:
            frames.append(ack_frame(self.channel, acks[run - 1], multiple=True))
            acks = acks[run:]
        frames += [ack_frame(self.channel, tag) for tag in acks]
        return b"".join(frames)

    def _raise_floor(self, top: int) -> None:
        floor = self._floor
        while floor <= top and floor not in self._held:
            floor += 1
        self._floor = floor

    def close(self) -> None:
        """Makes every delivery stale, those with it that fell due and were not collected."""
        with self._lock:
            self._live = False
            self._held.clear()
            self._acks.clear()
            self._requeues.clear()
