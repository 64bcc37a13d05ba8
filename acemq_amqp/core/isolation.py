"""A suspect is handled with nothing else of its consumer in flight.

A message that ended its process again and again must be told from those that were in flight with
it. A consumer that has just been attached takes one delivery at a time, so it need do nothing. One
with its whole prefetch open, that meets a suspect, takes no more deliveries, finishes what it has,
puts other suspects back with the count they had, handles the one, and is attached anew. Waits that
are held go on meanwhile: they may take long.
"""

from __future__ import annotations

from collections.abc import Callable

from acemq_amqp.core.attachment import Attachment
from acemq_amqp.core.ports import Arrival, Subscription, Work


class Isolation:
    """Isolates the suspects of one consumer, one at a time.

    :param attachment: takes no more deliveries meanwhile
    :param engaged: whether so many suspects are not all that the consumer has in flight on that
        subscription, besides what it holds
    :param put_back: moves a suspect behind the others of its queue, with its count
    :param again: has a worker take a delivery up again
    :param detached: has the consumer attached anew
    :ivar chosen: the suspect that may be handled now
    :ivar active: whether it has to be told when something ends
    """

    def __init__(
        self,
        work: Work,
        attachment: Attachment,
        *,
        name: str,
        engaged: Callable[[Subscription | None, int], bool],
        put_back: Callable[[Arrival], None],
        again: Callable[[Arrival], None],
        detached: Callable[[], None],
    ) -> None:
        self._work = work
        self._attachment = attachment
        self._name = name
        self._engaged = engaged
        self._put_back = put_back
        self._again = again
        self._detached = detached
        self._lock = work.lock()
        self._changed = work.event()
        self._suspects: list[Arrival] = []
        self._stopped: Subscription | None = None
        self._over = False
        self.active = False
        self.chosen: Arrival | None = None

    def take(self, arrival: Arrival) -> None:
        """Sets a suspect aside until it can be alone."""
        with self._lock:
            self._suspects.append(arrival)
            begins, self.active = not self.active, True
        if begins:
            self._work.spawn(self._run(), f"acemq-{self._name}-isolation")

    def look(self) -> None:
        """Something of the consumer ended: perhaps it has nothing in flight now."""
        self._changed.set()

    def end(self) -> list[Arrival]:
        """The consumer stops: what was set aside is its own again."""
        self._over = True
        self._changed.set()
        return self._taken()

    def _taken(self) -> list[Arrival]:
        with self._lock:
            taken, self._suspects = self._suspects, []
        return taken

    async def _run(self) -> None:
        attachment = self._attachment
        self._stopped = attachment.subscription
        await attachment.stop_deliveries(self._stopped)
        await self._alone_with(lambda: len(self._suspects))
        suspects = self._taken()
        self._put_all_back(suspects[1:])
        await self._alone_with(lambda: len(suspects[:1]))
        # else what was put back would come again, with the count of one that was in flight
        await attachment.stop_deliveries(self._stopped)
        if suspects and not self._over:
            self.chosen = suspects[0]
            self._again(suspects[0])
            await self._alone_with(lambda: 0)
        self.chosen = None
        with self._lock:
            self.active = False
        self._put_all_back(self._taken())  # of a new subscription, where the connection was lost
        if not self._over and attachment.let_go(self._stopped):
            self._detached()

    def _put_all_back(self, suspects: list[Arrival]) -> None:
        for suspect in suspects:
            self._put_back(suspect)

    async def _alone_with(self, suspects: Callable[[], int]) -> None:
        """Waits until only so many suspects are in flight, or the consumer stops."""
        while not self._over and self._engaged(self._stopped, suspects()):
            await self._changed.wait()
            self._changed.clear()
