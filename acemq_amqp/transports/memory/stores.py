"""What holds messages and serves consumers: the part that queues and streams have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import count

from acemq_amqp.core.ports import Arrival
from acemq_amqp.errors import BrokerError
from acemq_amqp.topology import QueueDeclaration
from acemq_amqp.transports.memory.arguments import QueueOptions
from acemq_amqp.transports.memory.channels import Channel, close_channels
from acemq_amqp.transports.memory.consumers import Consumer, Roster
from acemq_amqp.transports.memory.messages import Entry, Message
from acemq_amqp.transports.memory.refusals import in_exclusive_use
from acemq_amqp.transports.memory.runtime import Runtime


class Store(ABC):
    """A queue or a stream. Used under the broker's lock.

    :ivar owner: the link that declared it exclusively, else None
    :ivar unsettled: deliveries that nobody settled yet
    """

    def __init__(
        self,
        declaration: QueueDeclaration,
        options: QueueOptions,
        owner: object | None,
        runtime: Runtime,
        delete: Callable[[Store], None],
    ) -> None:
        self.declaration = declaration
        self.name = declaration.name
        self.options = options
        self.owner = owner
        self.unsettled = 0
        self.deleted = False
        self.roster = Roster(options.single_active)
        self._runtime = runtime
        self._delete = delete
        self._positions = count()

    # ------------------------------------------------------------ messages

    @property
    @abstractmethod
    def depth(self) -> int:
        """Messages that are ready."""

    @abstractmethod
    def entries(self) -> Iterator[Entry]:
        """What is ready, in the order of delivery."""

    @abstractmethod
    def publish(self, message: Message) -> bool:
        """Takes a message; False where it refuses (it is full)."""

    @abstractmethod
    def pull(self, channel: Channel) -> Arrival | None:
        """Delivers the next message, if there is one."""

    @abstractmethod
    def purge(self) -> int:
        """Drops what is ready; how many that were."""

    @abstractmethod
    def refresh(self) -> None:
        """Serves whoever can be served now."""

    @abstractmethod
    def restart(self) -> None:
        """The broker went down and came up."""

    # ------------------------------------------------------------ settling

    @abstractmethod
    def settled(self, entry: Entry, consumer: Consumer | None) -> None:
        """A delivery was acknowledged."""

    @abstractmethod
    def give_back(self, entry: Entry, consumer: Consumer | None, *, closing: bool) -> None:
        """A delivery comes again; :meth:`refresh` follows.

        :param closing: its channel went, rather than that somebody gave it back
        """

    @abstractmethod
    def rejected(self, entry: Entry, consumer: Consumer | None) -> None:
        """A delivery is not wanted back; :meth:`refresh` follows."""

    def _returned(self, consumer: Consumer | None) -> None:
        self.unsettled -= 1
        if consumer is not None:
            consumer.in_flight -= 1

    # ------------------------------------------------------------ consumers

    def join(self, consumer: Consumer) -> None:
        """:raises AccessRefused: it, or one that is there, wants the queue alone (403)"""
        if self.options.kind == "classic":
            alone = consumer.exclusive and (len(self.roster) or self.options.single_active)
            if self.roster.exclusive or alone:
                raise in_exclusive_use(self.name)
        self.roster.add(consumer)
        consumer.channel.consumers.append((self, consumer))

    def leave(self, consumer: Consumer) -> None:
        """A consumer goes; :meth:`refresh` follows. An auto-delete queue goes with its last."""
        if self.roster.remove(consumer) and not self.roster:
            if self.declaration.auto_delete:
                self._delete(self)
            self.used()

    def used(self) -> None:  # noqa: B027 - nothing to do is what most do
        """Somebody declared it, pulled from it or was the last to consume from it."""

    def dismiss(self, why: str) -> None:
        """Cancels every consumer of the broker's own accord; what they held comes again."""
        dismissed = list(self.roster)
        for consumer in dismissed:
            error = BrokerError(
                f"acemq: the broker cancelled consumer {consumer.tag!r} of queue {self.name!r}: "
                f"{why}; declare the queue again, or consume from another"
            )
            self._runtime.calls.note((consumer.ended, error))
        close_channels([consumer.channel for consumer in dismissed])
