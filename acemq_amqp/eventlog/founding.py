"""Making a log and taking it away, one at a time.

A log of one stream bears its name, a log of several has them numbered: how many there are is found
by looking, so that must never be in between. Streams are made from the last to the first, and
whoever makes or deletes a log holds a lock that the broker keeps: an exclusive consumer of a
queue that goes when its consumer does, also with a process that dies.

No stream is ever empty: its first message is a mark, the genesis.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from acemq_amqp.core.ports import (
    Arrival,
    Clock,
    Link,
    Subscription,
    SubscriptionEvents,
    SubscriptionRequest,
)
from acemq_amqp.errors import (
    AccessRefused,
    BrokerError,
    BrokerTimeout,
    ConfigurationError,
    NotFound,
)
from acemq_amqp.naming import checked_name
from acemq_amqp.retention import StreamRetention
from acemq_amqp.topology import QueueDeclaration, Topology

#: Seconds between looks at a lock that another holds.
_LOOK_AGAIN = 0.05

#: writes the first message of a stream
Genesis = Callable[[str], Awaitable[None]]


def stream_names(log: str, count: int) -> tuple[str, ...]:
    """The streams of a log: its own name, or numbered from 0."""
    return (log,) if count == 1 else tuple(f"{log}.{number}" for number in range(count))


def lock_name(log: str) -> str:
    """The queue that is there while a log is made or deleted."""
    return checked_name(f"{log}.creating", "lock of an event log")


async def found(link: Link, log: str, deadline: float) -> tuple[str, ...]:
    """The streams of a log that exists; none where it does not."""
    if await link.look_up_queue(log, deadline) is not None:
        return (log,)
    streams: list[str] = []
    while await link.look_up_queue(f"{log}.{len(streams)}", deadline) is not None:
        streams.append(f"{log}.{len(streams)}")
    return tuple(streams)


@dataclass(frozen=True, slots=True)
class Founder:
    """Makes and deletes one log, on one link."""

    clock: Clock
    link: Link
    log: str
    deadline: float

    async def create(
        self, count: int, retention: StreamRetention | None, genesis: Genesis
    ) -> tuple[str, ...]:
        """Makes the log unless another was quicker, and gives its streams."""
        lock = await self._lock()
        try:
            there = await found(self.link, self.log, self.deadline)
            return there or await self._made(count, retention, genesis)
        finally:
            await lock.close(self.deadline)

    async def delete(self) -> None:
        """Deletes the log's streams, the first one first: without it there is no log."""
        lock = await self._lock()
        try:
            for stream in await found(self.link, self.log, self.deadline):
                await self.link.delete_queue(stream, self.deadline)
        finally:
            await lock.close(self.deadline)

    async def _made(
        self, count: int, retention: StreamRetention | None, genesis: Genesis
    ) -> tuple[str, ...]:
        streams = stream_names(self.log, count)
        if count > 1:
            await self._refuse_leftover(f"{self.log}.{count}")
        for stream in reversed(streams):
            state = await self.link.look_up_queue(stream, self.deadline)
            if state is None:
                for step in Topology().stream(stream, retention).plan():
                    await self.link.declare(step, self.deadline)
            if state is None or not state.messages:
                await genesis(stream)
        return streams

    async def _refuse_leftover(self, beyond: str) -> None:
        if await self.link.look_up_queue(beyond, self.deadline) is not None:
            raise ConfigurationError(
                f"acemq: event log {self.log!r} cannot be made with fewer streams than to "
                f"{beyond!r}, which exists: it was being made before, with more; make it so, or "
                "delete that queue and those numbered after it"
            )

    async def _lock(self) -> Subscription:
        name = lock_name(self.log)
        events = SubscriptionEvents(arrived=_never, ended=_gone)
        while True:
            await self.link.declare(QueueDeclaration(name, auto_delete=True), self.deadline)
            try:
                request = SubscriptionRequest(name, "", 1, exclusive=True)
                return await self.link.subscribe(request, events, self.deadline)
            except (AccessRefused, NotFound) as held:  # NotFound: it has just been let go
                if self.clock.monotonic() >= self.deadline:
                    raise BrokerTimeout(
                        f"acemq: event log {self.log!r} is being made or deleted elsewhere, and "
                        f"that did not end in time: see who consumes from queue {name!r}"
                    ) from held
            await self.clock.sleep(_LOOK_AGAIN)


def _never(arrival: Arrival) -> None:
    """Nobody publishes to a lock."""


def _gone(why: BrokerError) -> None:
    """With its connection, of which whoever holds it hears anyway."""
