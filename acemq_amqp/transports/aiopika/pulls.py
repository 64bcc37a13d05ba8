"""Messages got one at a time, on a channel kept for it.

Answers to Basic.Get come in the order of the questions. One that comes after its
asker has gone is given back at once. A missing queue would close the channel under the
messages that others still hold, so a queue is looked up before its first pull.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from acemq_amqp.core.ports import Arrival, Deadline, QueueState
from acemq_amqp.errors import BrokerError, NotFound
from acemq_amqp.transports.aiopika.calls import Calls
from acemq_amqp.transports.aiopika.channels import Channels, LiveChannel
from acemq_amqp.transports.aiopika.settling import SettlingChannel
from acemq_amqp.transports.aiopika.tap_stream import TapStream
from acemq_amqp.transports.refusals import refusal
from acemq_amqp.transports.wire.events import ChannelClosed, Got, GotNothing
from acemq_amqp.transports.wire.frames import get_frame

LookUp = Callable[[str, Deadline], Awaitable[QueueState | None]]


class PullChannel(SettlingChannel):
    """The channel on which pulled messages are got and settled."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, stream: TapStream, channel: LiveChannel, calls: Calls
    ) -> None:
        super().__init__(loop, stream, channel)
        self._calls = calls
        self._asked: deque[tuple[str, asyncio.Future[Arrival | None]]] = deque()
        self.known: set[str] = set()
        channel.own(self)

    @property
    def usable(self) -> bool:
        return self._channel.usable

    async def get(self, queue: str, deadline: Deadline) -> Arrival | None:
        """Gets one message, or None where there is none."""
        answer: asyncio.Future[Arrival | None] = self._loop.create_future()
        self._asked.append((queue, answer))
        self.flush()  # what was given back before this question may be its answer
        self._stream.write(get_frame(self._channel.number, queue))
        return await self._calls.ask(answer, deadline, f"a pull from queue {queue!r}")

    def receive(self, event: Any) -> None:
        """Takes what the tap reads for the channel."""
        if isinstance(event, ChannelClosed):
            self.retire()
            while self._asked:
                queue, answer = self._asked.popleft()
                _fail(answer, refusal(event, f"a pull from queue {queue!r}"))
            return
        _, answer = self._asked.popleft()
        if isinstance(event, GotNothing):
            _answer(answer, None)
        elif isinstance(event, Got):
            self._ledger.delivered(event.tag)
            arrival = Arrival(
                self,
                event.tag,
                event.redelivered,
                event.exchange,
                event.routing_key,
                event.properties,
                event.body,
            )
            if not _answer(answer, arrival):
                self.requeue(event.tag)


class Pulls:
    """Pulls of one connection: opens the channel when it is needed, again once it was closed."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        stream: TapStream,
        channels: Channels,
        look_up: LookUp,
    ) -> None:
        self._loop = loop
        self._stream = stream
        self._channels = channels
        self._look_up = look_up
        self._opening = asyncio.Lock()
        self._current: PullChannel | None = None

    async def pull(self, queue: str, deadline: Deadline) -> Arrival | None:
        """One message, unsettled.

        :raises NotFound: there is no such queue
        """
        channel = self._current
        if channel is None or not channel.usable:
            opening = self._open()
            channel = await self._channels.calls.ask(opening, deadline, f"a pull from {queue!r}")
        if queue not in channel.known:
            if await self._look_up(queue, deadline) is None:
                raise NotFound(
                    f"acemq: cannot pull from queue {queue!r}: it does not exist; check the name "
                    "and the vhost, or declare it first",
                    code=404,
                )
            channel.known.add(queue)
        return await channel.get(queue, deadline)

    async def _open(self) -> PullChannel:
        async with self._opening:
            current = self._current
            if current is None or not current.usable:
                live = await self._channels.open(None, "opening a channel for pulls")
                current = PullChannel(self._loop, self._stream, live, self._channels.calls)
                self._current = current
            return current


def _answer(waiting: asyncio.Future[Arrival | None], arrival: Arrival | None) -> bool:
    """Answers, unless the asker has gone."""
    if waiting.done():
        return False
    waiting.set_result(arrival)
    return True


def _fail(waiting: asyncio.Future[Arrival | None], error: BrokerError) -> None:
    if not waiting.done():
        waiting.set_exception(error)
