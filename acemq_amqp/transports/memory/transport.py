"""Makes links to the brokers of this process."""

from __future__ import annotations

from acemq_amqp.address import Address
from acemq_amqp.core.ports import Deadline, LinkEvents, Work
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.transports.memory.link import MemoryLink
from acemq_amqp.transports.memory.registry import memory_broker


class MemoryTransport:
    """The transport of ``memory://name``, for both flavours.

    :param work: the flavour's; waiting for an alarm to pass is done with it
    """

    def __init__(self, work: Work) -> None:
        self._work = work

    async def connect(
        self, address: Address, *, name: str, events: LinkEvents, deadline: Deadline
    ) -> MemoryLink:
        """Opens one connection; the broker is made if it is not there.

        :raises CannotConnect: the broker was stopped
        """
        if address.scheme != "memory":
            raise ConfigurationError(
                f"acemq: {address.shown} is no in-memory broker; give memory://NAME"
            )
        broker = memory_broker(address.host)
        link = MemoryLink(broker, self._work, name, address.username, events)
        broker.attach(link)
        return link
