"""Reading all lanes of a log for a group, stream by stream, each held whole by one member.

The streams are read side by side, one message after the other in each. A member that finds a stream
held by another stands by, and takes it over when that one leaves or its lease runs out.
"""

from __future__ import annotations

import logging

from acemq_amqp.core.ports import Call
from acemq_amqp.errors import StoreError
from acemq_amqp.eventlog.errors import LeaseLost, gone
from acemq_amqp.eventlog.handling import Handling, Plan
from acemq_amqp.eventlog.holding import Held, held
from acemq_amqp.eventlog.limits import Idleness, Quota
from acemq_amqp.eventlog.reading import Reading
from acemq_amqp.eventlog.running import Running

log = logging.getLogger("acemq_amqp")

__all__ = ["Consuming", "Plan"]


class Consuming(Running):
    """A running reader of all lanes."""

    def __init__(self, reading: Reading, call: Call, plan: Plan) -> None:
        super().__init__(reading.work)
        self._reading = reading
        self._call = call
        self._plan = plan
        self._quota = Quota(plan.limit, reading.work.lock())
        self._idleness = Idleness(len(reading.log.streams), plan.idle)
        self._holds: dict[str, Held] = {}

    @property
    def reading(self) -> Reading:
        """The group, and how it reads."""
        return self._reading

    def start(self) -> None:
        """Begins. The group must have been placed."""
        name = f"acemq-{self._reading.group}"
        for stream in self._reading.log.streams:
            self._spawn(self._read(stream), f"{name}-{stream}")
        self._spawn(self._renewing(), f"{name}-leases")

    async def _read(self, stream: str) -> None:
        async def attempt() -> float:
            hold = await held(self._reading, stream, placed=True)
            if hold is None:
                return await self._stand_by(stream)
            self.well(stream)
            self._holds[stream] = hold
            try:
                await Handling(self, hold, self._call, self._plan, self._quota).run()
            finally:
                del self._holds[stream]
                self._idleness.busy(stream)
                await hold.leave()
            return 0.0

        await self._lasting(stream, attempt)

    async def _stand_by(self, stream: str) -> float:
        """Where another reads the stream: seconds until it is tried again.

        :raises NotFound: the group was deleted
        """
        reading = self._reading
        position = await reading.store.position(reading.group, stream)
        if position is None:
            raise gone(reading.group, stream)
        self.well(stream)
        if self._idleness.matters:
            if position.next > (await reading.log.ends(stream)).tail:
                self.quiet(stream)
            else:
                self.busy(stream)
        return min(1.0, reading.store.lease / 3)

    async def _renewing(self) -> None:
        """Keeps holds alive while handlers run."""
        while not await self.pause(self._reading.store.lease / 4):
            for hold in list(self._holds.values()):
                try:
                    await hold.keep()
                except (LeaseLost, StoreError) as failure:  # its next commit meets it as well
                    log.warning("%s", failure)

    # ------------------------------------------------------------ as one of its streams sees it

    def busy(self, stream: str) -> None:
        """Something came there, or what is there cannot be read yet."""
        self._idleness.busy(stream)

    def quiet(self, stream: str) -> None:
        """All is read there; where that is so everywhere, for long enough, reading ends."""
        if self._idleness.quiet(stream, self._reading.now()):
            self.stop()

    async def pause(self, seconds: float) -> bool:
        """Waits; True where it is to end."""
        return await self._pause(seconds)
