"""Who consumes from a queue, and whose turn it is.

Round robin among those with prefetch to spare, higher ``x-priority`` first. With a
single active consumer the first stays in charge until it goes, whatever its
prefetch, and the next by registration follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from acemq_amqp.core.ports import Arrival
from acemq_amqp.errors import BrokerError
from acemq_amqp.transports.memory.offsets import Wanted

if TYPE_CHECKING:
    from acemq_amqp.transports.memory.channels import Channel


class Consumer:
    """One consumer. ``prefetch`` 0 is no limit.

    :ivar cursor: the next offset, on a stream
    :ivar wanted: which messages it is sent, on a stream; None is all of them
    """

    __slots__ = (
        "arrived",
        "channel",
        "cursor",
        "ended",
        "exclusive",
        "in_flight",
        "prefetch",
        "priority",
        "tag",
        "wanted",
    )

    def __init__(
        self,
        channel: Channel,
        tag: str,
        prefetch: int,
        *,
        exclusive: bool = False,
        priority: int = 0,
        arrived: Callable[[Arrival], None],
        ended: Callable[[BrokerError], None],
    ) -> None:
        self.channel = channel
        self.tag = tag
        self.prefetch = prefetch
        self.exclusive = exclusive
        self.priority = priority
        self.arrived = arrived
        self.ended = ended
        self.in_flight = 0
        self.cursor = 0
        self.wanted: Wanted | None = None

    @property
    def willing(self) -> bool:
        """Whether its prefetch leaves room."""
        return not self.prefetch or self.in_flight < self.prefetch


class Roster:
    """The consumers of one queue."""

    __slots__ = ("_active", "_consumers", "_single_active")

    def __init__(self, single_active: bool = False) -> None:
        self._single_active = single_active
        self._active: Consumer | None = None
        self._consumers: list[Consumer] = []

    def __len__(self) -> int:
        return len(self._consumers)

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._consumers)

    @property
    def exclusive(self) -> bool:
        """Whether one consumer has the queue to itself."""
        return any(consumer.exclusive for consumer in self._consumers)

    def add(self, consumer: Consumer) -> None:
        """After all that have its priority."""
        consumers = self._consumers
        at = len(consumers)
        while at and consumers[at - 1].priority < consumer.priority:
            at -= 1
        consumers.insert(at, consumer)

    def remove(self, consumer: Consumer) -> bool:
        """False where it had gone already."""
        if consumer not in self._consumers:
            return False
        self._consumers.remove(consumer)
        if consumer is self._active:
            self._active = None
        return True

    def clear(self) -> list[Consumer]:
        """Takes them all out."""
        gone, self._consumers, self._active = self._consumers, [], None
        return gone

    def next(self) -> Consumer | None:
        """Who gets the next message; None where nobody has room."""
        if self._single_active:
            return self._in_charge()
        for consumer in self._consumers:
            if consumer.willing:
                if len(self._consumers) > 1:
                    self._consumers.remove(consumer)
                    self.add(consumer)
                return consumer
        return None

    def _in_charge(self) -> Consumer | None:
        if self._active is None and self._consumers:
            self._active = self._consumers[0]
        return self._active if self._active is not None and self._active.willing else None
