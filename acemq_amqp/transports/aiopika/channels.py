"""The channels of one connection: opened and closed by the driver, fed by the tap.

Numbers go round, so that a number is not used again right after its channel was
closed. What the tap reads for a channel goes to the receiver registered under its
number; a channel closed by the broker keeps the broker's verdict, from which the
errors of the calls that wait on it are made.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, cast

from aiormq import Channel
from aiormq.abc import AbstractConnection
from pamqp.base import Frame

from acemq_amqp.core.ports import Deadline
from acemq_amqp.errors import BrokerError
from acemq_amqp.transports.aiopika.calls import Calls, seconds_left
from acemq_amqp.transports.refusals import refusal
from acemq_amqp.transports.wire.events import (
    Blocked,
    ChannelClosed,
    ConnectionClosed,
    Unblocked,
    WireEvent,
)

log = logging.getLogger("acemq_amqp")

ConnectionEvent: TypeAlias = Blocked | Unblocked | ConnectionClosed
Receiver = Callable[[Any], None]
_OF_THE_CONNECTION = (Blocked, Unblocked, ConnectionClosed)
_MOST_CHANNELS = 65_535
#: seconds that the broker gets to answer when a channel is closed behind the scenes
_FAREWELL = 10.0


class Owner(Protocol):
    """What a channel was opened for."""

    def receive(self, event: Any) -> None:
        """Takes what the tap reads for the channel."""

    def flush(self) -> None:
        """Writes what waits; the socket takes bytes."""

    def retire(self) -> None:
        """The connection is over, or about to be closed."""


class LiveChannel:
    """A channel from its opening to its end.

    :ivar usable: frames may be written on it and calls made
    """

    def __init__(self, driver: Channel, number: int, channels: Channels) -> None:
        self.driver = driver
        self.number = number
        self.usable = True
        self.verdict: ChannelClosed | None = None
        self.owner: Owner | None = None
        self._channels = channels
        self._leaving: asyncio.Task[None] | None = None

    def own(self, owner: Owner) -> None:
        """Registers who gets what the tap reads for this channel."""
        self.owner = owner
        self._channels.receivers[self.number] = owner.receive

    async def call(
        self, request: Frame, deadline: Deadline, asked: str, *, declaring: bool = False
    ) -> Any:
        """Sends a request and waits for the answer. After a failure the channel is of no use.

        :raises BrokerError: as the broker refused it, or no answer came
        """
        answered = False
        calls = self._channels.calls
        try:
            answer = await calls.ask(self.driver.rpc(request), deadline, asked)
            answered = True
            return answer
        except BrokerError:
            raise
        except Exception as error:  # whatever the driver makes of a closed channel
            if self.verdict is not None:
                raise refusal(self.verdict, asked, declaring=declaring) from error
            raise calls.loss(asked) from error
        finally:
            self.usable = self.usable and answered

    async def close(self, deadline: Deadline) -> None:
        """Closes it, and with it its consumers, which are not cancelled first.

        What is not done by the deadline goes on behind the scenes.
        """
        self.discard()
        if self._leaving is not None:
            await asyncio.wait((self._leaving,), timeout=seconds_left(deadline))

    def discard(self) -> None:
        """Closes it behind the scenes."""
        self.usable = False
        if self._channels.live.pop(self.number, None) is self:
            self._leaving = self._channels.calls.spawn(self._leave())

    async def _leave(self) -> None:
        deadline = time.monotonic() + _FAREWELL
        try:
            await self._channels.calls.ask(self.driver.close(), deadline, "closing a channel")
        except Exception as error:
            log.debug("acemq: channel %d was not closed in order: %r", self.number, error)
        finally:
            self._channels.receivers.pop(self.number, None)


class Channels:
    """Opens channels, and hands what the tap reads to their receivers.

    :param of_connection: receives what concerns no channel
    """

    def __init__(
        self,
        connection: AbstractConnection,
        calls: Calls,
        channel_max: int,
        of_connection: Callable[[ConnectionEvent], None],
    ) -> None:
        self.calls = calls
        self.live: dict[int, LiveChannel] = {}
        self.receivers: dict[int, Receiver] = {}
        self._connection = connection
        self._of_connection = of_connection
        self._channel_max = channel_max or _MOST_CHANNELS
        self._last = 0

    async def open(self, deadline: Deadline, asked: str, *, confirms: bool = False) -> LiveChannel:
        """Opens a channel; its receiver is to be registered before anything is sent on it.

        :raises BrokerError: the connection has no number left, or no answer came
        """
        number = self._free_number()
        opening = self._connection.channel(number, publisher_confirms=confirms)
        try:
            driver = await self.calls.ask(opening, deadline, asked)
        except BrokerError:
            raise
        except Exception as error:
            raise self.calls.loss(asked) from error
        channel = self.live[number] = LiveChannel(cast(Channel, driver), number, self)
        return channel

    def received(self, events: Sequence[WireEvent]) -> None:
        """Hands events on, in their order."""
        receivers = self.receivers
        for event in events:
            if isinstance(event, _OF_THE_CONNECTION):
                self._of_connection(event)
                continue
            if isinstance(event, ChannelClosed):
                self._closed_by_broker(event)
            receiver = receivers.get(event.channel)
            if receiver is not None:
                receiver(event)

    def flush(self) -> None:
        """Writes what waits on every channel."""
        for owner in self._owners():
            owner.flush()

    def retire(self) -> None:
        """Writes what settlements wait, and makes every other delivery stale."""
        for owner in self._owners():
            owner.retire()

    def end(self) -> None:
        """The connection is over, and all channels with it."""
        for channel in self.live.values():
            channel.usable = False
        self.retire()
        self.receivers.clear()
        self.live.clear()

    def _owners(self) -> list[Owner]:
        return [channel.owner for channel in self.live.values() if channel.owner is not None]

    def _closed_by_broker(self, event: ChannelClosed) -> None:
        channel = self.live.pop(event.channel, None)
        if channel is not None:
            channel.verdict, channel.usable = event, False

    def _free_number(self) -> int:
        taken = self._connection.channels
        for _ in range(self._channel_max):
            self._last = self._last % self._channel_max + 1
            if self._last not in taken:
                return self._last
        raise BrokerError(
            f"acemq: all {self._channel_max} channels of the connection are in use; close "
            "consumers, spread them over several connections, or raise the broker's channel_max"
        )
