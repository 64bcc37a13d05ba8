"""The side channel: declares and look-ups, one after the other.

A call that the broker refuses closes this channel and nothing else; the next call
opens another. A call whose answer is overdue keeps its channel busy, so that channel
is left to itself, and closed when the answer comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pika.spec

from acemq_amqp.core.ports import Deadline
from acemq_amqp.errors import BrokerTimeout
from acemq_amqp.transports.pika.channels import LiveChannel
from acemq_amqp.transports.pika.reply import Reply
from acemq_amqp.transports.pika.session import Session
from acemq_amqp.transports.refusals import refusal
from acemq_amqp.transports.wire.events import ChannelClosed

_DECLARED = (pika.spec.Queue.DeclareOk, pika.spec.Exchange.DeclareOk)


@dataclass(slots=True, eq=False)
class Call:
    """One method, its answer, and who waits for it.

    :ivar asked: for errors: "declaring queue 'orders'"
    """

    asked: str
    method: Any
    answer: Any
    arguments: Mapping[str, Any] | None
    reply: Reply[Any]


class SideChannel:
    """Makes calls in order, each on a channel that is fit for it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: deque[Call] = deque()
        self._now: Call | None = None
        self._channel: LiveChannel | None = None
        self._ready = False

    def ask(
        self,
        asked: str,
        method: Any,
        answer: Any,
        deadline: Deadline,
        arguments: Mapping[str, Any] | None = None,
    ) -> Any:
        """Makes one call and waits for its answer. Any thread but the I/O thread.

        :raises BrokerError: refused (by kind), overdue, or the connection is lost
        """

        def begin(reply: Reply[Any]) -> None:
            self._waiting.append(Call(asked, method, answer, arguments, reply))
            self._next()

        try:
            return self._session.io.ask(begin, deadline, asked)
        except BrokerTimeout:
            self._session.io.call(self._overdue)
            raise

    # ------------------------------------------------------------ the I/O thread

    def _next(self) -> None:
        while self._now is None and self._waiting:
            if self._channel is None:
                self._ready = False
                self._channel = self._open()
            if not self._ready:
                return
            call = self._waiting.popleft()
            if call.reply.open:
                self._make(call, self._channel)

    def _make(self, call: Call, channel: LiveChannel) -> None:
        def answered(answer: Any) -> None:
            call.reply.set(answer)
            if self._now is call:
                self._now = None
                self._next()
            else:
                channel.close(_nothing)

        try:
            channel.call(
                call.method,
                call.answer,
                answered,
                arguments=call.arguments,
                what=f"argument, {call.asked},",
            )
            self._now = call
        except Exception as error:
            call.reply.fail(error)

    def _open(self) -> LiveChannel:
        channel: LiveChannel

        def opened() -> None:
            self._ready = True
            self._next()

        def closed(event: ChannelClosed) -> None:
            if self._channel is channel:
                self._channel, self._ready = None, False
                self._refused(event)

        channel = LiveChannel(self._session, _ignore, opened, closed)
        return channel

    def _refused(self, closed: ChannelClosed) -> None:
        call, self._now = self._now, None
        if call is not None:
            declares = call.answer in _DECLARED
            call.reply.fail(refusal(closed, call.asked, declaring=declares))
        self._next()

    def _overdue(self) -> None:
        if self._now is not None and not self._now.reply.open:
            self._now = self._channel = None
            self._next()


def _ignore(_event: object) -> None:
    pass


def _nothing() -> None:
    pass
