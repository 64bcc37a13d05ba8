"""What stands on the broker: declaring, looking up, emptying, deleting, taking one message."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from acemq_amqp import naming
from acemq_amqp.core import checks
from acemq_amqp.core.catalogue import Catalogue, Difference, declare_all, differences
from acemq_amqp.core.ports import Arrival, Link, QueueState, Work
from acemq_amqp.core.pulling import Delivery
from acemq_amqp.core.supervisor import Supervisor
from acemq_amqp.errors import AccessRefused, NotFound
from acemq_amqp.topology import Topology

T = TypeVar("T")

#: the reply code where a queue is another connection's
_LOCKED = 405


class Administration:
    """The verbs of a connection that concern queues and exchanges, not messages under way.

    :param timeout: seconds each may take
    """

    def __init__(
        self, work: Work, control: Supervisor, catalogue: Catalogue, timeout: float
    ) -> None:
        self._work = work
        self._control = control
        self._catalogue = catalogue
        self._timeout = timeout

    async def declare(self, topology: Topology) -> None:
        """Declares everything in a topology, and again after every lost connection.

        :raises DeclarationMismatch: an object exists with other arguments
        """
        self._work.refuse_elsewhere()
        checks.checked_topology(topology)
        await self._work.finish(self._declare(topology))

    async def _declare(self, topology: Topology) -> None:
        deadline = self._work.clock.monotonic() + self._timeout
        link = await self._control.connected(deadline)
        await declare_all(link, topology.plan(), deadline)
        self._catalogue.remember(topology)

    async def verify(self, topology: Topology) -> list[Difference]:
        """Compares a topology with the broker; an empty list means equal. Creates nothing."""
        checks.checked_topology(topology)
        return await self.ask(lambda link, limit: differences(link, topology, limit))

    async def queue_exists(self, queue: str) -> bool:
        """Whether the broker has it, be it another connection's alone."""
        try:
            return await self._state(queue) is not None
        except AccessRefused as refused:
            if refused.code != _LOCKED:
                raise
            return True

    async def message_count(self, queue: str) -> int:
        """Messages that are ready in it.

        :raises NotFound: there is no such queue
        """
        state = await self._state(queue)
        if state is None:
            raise _no_queue(queue)
        return state.messages

    async def consumer_count(self, queue: str) -> int:
        """Consumers that it has, of whatever connection.

        :raises NotFound: there is no such queue
        """
        state = await self._state(queue)
        if state is None:
            raise _no_queue(queue)
        return state.consumers

    async def delete_queue(self, queue: str) -> int:
        """Deletes it with its messages, whose number is returned. 0 where it did not exist."""
        naming.checked_name(queue, "queue")
        self._catalogue.forget_queue(queue)
        return await self.ask(lambda link, limit: link.delete_queue(queue, limit))

    async def purge(self, queue: str) -> int:
        """Drops the ready messages in it, and returns how many.

        :raises NotFound: there is no such queue
        """
        naming.checked_name(queue, "queue")
        return await self.ask(lambda link, limit: link.purge_queue(queue, limit))

    async def pull(self, queue: str) -> Delivery | None:
        """Takes one message, undecoded; None where the queue is empty.

        Where its caller is cancelled the message goes back.

        :raises NotFound: there is no such queue
        """
        self._work.refuse_elsewhere()
        naming.checked_name(queue, "queue")
        deadline = self._work.clock.monotonic() + self._timeout
        pulling = _Pulling()
        try:
            await self._work.finish(self._pull(queue, deadline, pulling))
        except BaseException:
            pulling.abandoned = True
            pulling.give_back()
            raise
        arrival = pulling.arrival
        return None if arrival is None else Delivery(queue, arrival, self._work)

    async def _pull(self, queue: str, deadline: float, pulling: _Pulling) -> None:
        link = await self._control.connected(deadline)
        if not pulling.abandoned:
            pulling.arrival = await link.pull(queue, deadline)
        if pulling.abandoned:
            pulling.give_back()

    async def _state(self, queue: str) -> QueueState | None:
        naming.checked_name(queue, "queue")
        return await self.ask(lambda link, limit: link.look_up_queue(queue, limit))

    async def ask(self, ask: Callable[[Link, float], Coroutine[Any, Any, T]]) -> T:
        """A question to the broker, seen to its end even where its caller is cancelled."""

        async def asked() -> T:
            deadline = self._work.clock.monotonic() + self._timeout
            return await ask(await self._control.connected(deadline), deadline)

        self._work.refuse_elsewhere()
        return await self._work.finish(asked())


class _Pulling:
    """A message on its way to whoever asked for it, unless they have gone."""

    def __init__(self) -> None:
        self.abandoned = False
        self.arrival: Arrival | None = None

    def give_back(self) -> None:
        arrival, self.arrival = self.arrival, None
        if arrival is not None:
            arrival.settling.requeue(arrival.tag)


def _no_queue(queue: str) -> NotFound:
    return NotFound(f"acemq: there is no queue {queue!r}; declare it first", code=404)
