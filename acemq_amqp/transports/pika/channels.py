"""One channel: opened and closed by the driver, called and fed by us.

The driver keeps the channel's number and state. It never learns of consumers or
content on it, so it has nothing to cancel, reject or drop by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pika.exceptions
from pika.channel import Channel

from acemq_amqp.errors import BrokerError
from acemq_amqp.transports.pika.methods import method_frame
from acemq_amqp.transports.pika.session import Session, guarded
from acemq_amqp.transports.wire.events import ChannelClosed, WireEvent


class LiveChannel:
    """A channel from open to close. Used on the I/O thread only.

    :param receive: takes the events of this channel
    :param closed_by_broker: called with the broker's reason, at most once
    :raises BrokerError: no channel can be opened on this connection
    """

    def __init__(
        self,
        session: Session,
        receive: Callable[[WireEvent], None],
        opened: Callable[[], None],
        closed_by_broker: Callable[[ChannelClosed], None],
    ) -> None:
        self._session = session
        self._closed_by_broker = closed_by_broker
        self._when_closed: list[Callable[[], None]] = []
        try:
            self._channel: Channel = session.connection.channel(
                on_open_callback=lambda _channel: guarded(opened)
            )
        except pika.exceptions.NoFreeChannels as error:
            raise BrokerError(
                f"acemq: the connection to {session.address.shown} has no channel left; "
                "close consumers, or open a second connection"
            ) from error
        except pika.exceptions.AMQPError as error:
            raise session.loss() from error
        self._channel.add_on_close_callback(self._closed)
        self.number: int = self._channel.channel_number
        session.routes[self.number] = receive

    @property
    def is_open(self) -> bool:
        return bool(self._channel.is_open)

    def write(self, frames: bytes) -> None:
        """Writes frames of ours, unless the channel is closed: those never reach the socket."""
        if self._channel.is_open:
            self._session.write(frames)

    def call(
        self,
        method: Any,
        answer: Any,
        answered: Callable[[Any], None],
        *,
        arguments: Mapping[str, Any] | None = None,
        what: str = "argument",
    ) -> None:
        """Writes a method and calls back with the broker's answer, if one comes.

        :param answer: the driver's class of the answer
        """
        frame = method_frame(self.number, method, arguments, what)
        self._channel.add_callback(lambda got: guarded(answered, got.method), [answer])
        self.write(frame)

    def close(self, closed: Callable[[], None]) -> None:
        """Closes it; consumers on it end with it, uncancelled. Calls back when it is closed."""
        if self._channel.is_closed:
            closed()
            return
        self._when_closed.append(closed)
        if not self._channel.is_closing:
            self._channel.close()

    def _closed(self, _channel: Any, reason: BaseException) -> None:
        if self._session.routes.pop(self.number, None) is None:
            return
        for closed in self._when_closed:
            guarded(closed)
        if not self._when_closed and isinstance(reason, pika.exceptions.ChannelClosedByBroker):
            why = ChannelClosed(self.number, reason.reply_code, reason.reply_text, 0, 0)
            guarded(self._closed_by_broker, why)
