"""A RabbitMQ in memory: what tests and demos connect to as ``memory://name``.

Everything that a broker does happens here at once, under one lock, in the order in
which it was asked for; no thread runs, except a timer while something is to expire
on the real clock and a connection is open. It does what RabbitMQ does or refuses by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from acemq_amqp.core.ports import Outcome, Outgoing, Pending, Refused, Unsent
from acemq_amqp.errors import CannotConnect, ConnectionLost
from acemq_amqp.properties import Properties
from acemq_amqp.transports.memory.alarm import Alarm, Answered, Waiting
from acemq_amqp.transports.memory.channels import close_channels
from acemq_amqp.transports.memory.clock import BrokerClock, RealClock
from acemq_amqp.transports.memory.publishing import message_of
from acemq_amqp.transports.memory.refusals import no_queue
from acemq_amqp.transports.memory.runtime import Runtime
from acemq_amqp.transports.memory.stores import Store
from acemq_amqp.transports.memory.vhost import VirtualHost

if TYPE_CHECKING:
    from acemq_amqp.transports.memory.link import MemoryLink

_SHUTDOWN = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"


def _without_argument(call: Callable[[], None]) -> Callable[[object], None]:
    return lambda _: call()


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message that waits in a queue."""

    body: bytes
    properties: Properties
    exchange: str
    routing_key: str
    redelivered: bool


class MemoryBroker:
    """One broker, shared by every connection of this process to ``memory://name``.

    Get it with :func:`memory_broker`. Its methods may be called from any thread; what comes
    of them has reached every connection when they return, unless another thread is just
    telling that connection something.

    :ivar name: its name in ``memory://name``
    :ivar clock: its time; a ``TestClock`` is moved on with ``clock.advance(seconds)``
    :ivar max_message_size: bytes that a body may have
    :ivar version: what it tells connections that it is
    """

    def __init__(self, name: str, clock: BrokerClock | None = None) -> None:
        self.name = name
        self.clock: BrokerClock = RealClock() if clock is None else clock
        self.max_message_size = 16 * 1024 * 1024
        self.version: tuple[int, ...] = (4, 0, 0)
        #: one operation, whole: ``with broker.turn``
        self.turn = Runtime(self.clock)
        self.host = VirtualHost(self.turn)
        self._alarm = Alarm()
        self._links: dict[MemoryLink, None] = {}
        self._running = True

    def __repr__(self) -> str:
        return f"MemoryBroker({self.name!r})"

    # ------------------------------------------------------------ looking

    @property
    def delivery_limit(self) -> int | None:
        """The delivery limit of quorum queues declared from now on without one."""
        return self.host.delivery_limit

    @delivery_limit.setter
    def delivery_limit(self, limit: int | None) -> None:
        self.host.delivery_limit = limit

    def queues(self) -> tuple[str, ...]:
        """The names of all queues, oldest first."""
        with self.turn:
            return tuple(self.host.queues)

    def queue_depth(self, queue: str) -> int:
        """Messages that are ready in a queue; those delivered and not settled are not counted.

        :raises NotFound: there is no such queue
        """
        with self.turn:
            return self._queue(queue).depth

    def unsettled(self, queue: str) -> int:
        """Messages of a queue that were delivered and are not settled."""
        with self.turn:
            return self._queue(queue).unsettled

    def messages(self, queue: str) -> list[StoredMessage]:
        """The messages that are ready in a queue, in the order of delivery. They stay there."""
        with self.turn:
            entries = list(self._queue(queue).entries())
        return [
            StoredMessage(
                entry.message.body,
                entry.message.properties,
                entry.message.exchange,
                entry.message.routing_keys[0],
                entry.redelivered,
            )
            for entry in entries
        ]

    def consumers(self, queue: str) -> tuple[str, ...]:
        """The tags of a queue's consumers, next first; all of them, active or not."""
        with self.turn:
            return tuple(consumer.tag for consumer in self._queue(queue).roster)

    def connections(self) -> tuple[str, ...]:
        """The names of all open connections, oldest first."""
        with self.turn:
            return tuple(link.name for link in self._links)

    @property
    def blocked_reason(self) -> str | None:
        """Why publishing is paused, or None."""
        return self._alarm.reason

    @property
    def running(self) -> bool:
        return self._running

    # ------------------------------------------------------------ making trouble

    def block(self, reason: str = "low on memory") -> None:
        """Pauses publishing, as an alarm does: what is published waits. All else goes on.

        :param reason: the words that publishers are told
        """
        with self.turn:
            self._alarm.reason = reason
            for link in self._links:
                self._tell_blocked(link, reason)

    def unblock(self) -> None:
        """Ends the pause; what waits and was not withdrawn is stored in order."""
        with self.turn:
            if self._alarm.reason is None:
                return
            waiting = self._alarm.pass_()
            for link in self._links:
                if link.told_blocked:
                    link.told_blocked = False
                    self.turn.calls.note((_without_argument(link.events.unblocked), None))
            for each in waiting:
                each.settle(self._accept(each.outgoing, each.link.login), self.turn.calls.note)

    def kill_connections(self, reason: str = "Closed via the in-memory broker") -> int:
        """Ends every connection, as an operator can; how many those were. They may come back."""
        with self.turn:
            return self._lose(list(self._links), f"CONNECTION_FORCED - {reason}", 320)

    def cancel_consumers(self, queue: str, why: str = "the queue's leader moved") -> None:
        """Cancels every consumer of a queue, as a broker does of its own accord.

        What they held is ready again.
        """
        with self.turn:
            self._queue(queue).dismiss(why)

    def stop(self) -> None:
        """Goes down: every connection is lost and none can be made.

        Durable exchanges and queues survive, with their persistent messages, and on quorum
        queues and streams with all; exclusive and transient queues do not, nor auto-delete
        queues that had a consumer.
        """
        with self.turn:
            self._running = False
            self._lose(list(self._links), _SHUTDOWN, 320)
            self._alarm.reason = None
            self.host.restart()

    def start(self) -> None:
        """Comes up again; connections can be made."""
        self._running = True

    def _queue(self, name: str) -> Store:
        found = self.host.queues.get(name)
        if found is None:
            raise no_queue(name)
        return found

    # ------------------------------------------------------------ what links ask for

    def attach(self, link: MemoryLink) -> None:
        """A connection is made.

        :raises CannotConnect: the broker is stopped
        """
        with self.turn:
            if not self._running:
                raise CannotConnect(
                    f"acemq: nothing listens at memory://{self.name}: the in-memory broker was "
                    "stopped; start() it"
                )
            self._links[link] = None
            self.turn.timetable.wake()

    def detach(self, link: MemoryLink) -> None:
        """A connection ends by its own side's doing."""
        with self.turn:
            self._drop([link], "the connection was closed")

    def has(self, link: MemoryLink) -> bool:
        """Whether a connection is open. In a turn."""
        return link in self._links

    def lose(self, link: MemoryLink, words: str, code: int) -> None:
        """Ends a connection that did what a broker does not stand."""
        with self.turn:
            self._lose([link], words, code)

    def publish(
        self, link: MemoryLink, outgoing: Outgoing, on_outcome: Callable[[Outcome], None] | None
    ) -> Pending:
        """Stores a message at once, or has it wait for the alarm to pass."""
        with self.turn:
            outcome: Outcome
            if link not in self._links:
                outcome = Unsent("the connection is closed")
            elif self._alarm.reason is not None:
                if not link.told_blocked:
                    self._tell_blocked(link, self._alarm.reason)
                waiting = Waiting(link, outgoing, on_outcome, self)
                self._alarm.waiting.append(waiting)
                return waiting
            else:
                outcome = self._accept(outgoing, link.login)
        if on_outcome is not None:
            on_outcome(outcome)
        return Answered(outcome, link.work)

    def withdraw(self, waiting: Waiting) -> None:
        """Takes back a publish that waits; it never turns up."""
        with self.turn:
            if not waiting.settled:
                self._alarm.waiting.remove(waiting)
                waiting.settle(self._unsent("the broker paused publishing"), self.turn.calls.note)

    def _tell_blocked(self, link: MemoryLink, reason: str) -> None:
        link.told_blocked = True
        self.turn.calls.note((link.events.blocked, reason))

    def _accept(self, outgoing: Outgoing, login: str) -> Outcome:
        message = message_of(outgoing, login, self.max_message_size)
        return message if isinstance(message, Refused) else self.host.publish(message)

    def _unsent(self, otherwise: str) -> Unsent:
        reason = self._alarm.reason
        return Unsent(otherwise) if reason is None else Unsent(reason, paused=True)

    def _lose(self, links: list[MemoryLink], words: str, code: int) -> int:
        links = [link for link in links if link in self._links]
        self._drop(links, words)
        for link in links:
            error = ConnectionLost(
                f"acemq: the connection to memory://{self.name} was lost: {words} ({code}); "
                "it may be made again",
                code=code,
            )
            self.turn.calls.note((link.events.lost, error))
        return len(links)

    def _drop(self, links: list[MemoryLink], words: str) -> None:
        """All together, so that nothing given back visits one that goes as well."""
        links = [link for link in links if link in self._links]
        for link in links:
            del self._links[link]
            for waiting in self._alarm.of(link):
                waiting.settle(self._unsent(words), self.turn.calls.note)
            self.host.disown(link)
        close_channels(channel for link in links for channel in link.channels)
        if not self._links:
            self.turn.timetable.sleep()
