"""What a case is written against: one flavour on one stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from acemq_amqp import Connection, Delivery, Message, Topology
from acemq_amqp.core import connection as core
from acemq_amqp.properties import Properties
from tests.contract.flavours import Flavour, other_than
from tests.contract.seen import Gate
from tests.contract.stands import Stand
from tests.contract.waiting import until


class Api:
    """Opens connections, names things, and asks the broker on the side.

    Everything opened through it is closed after the case.
    """

    def __init__(
        self, flavour: Flavour, stand: Stand, names: Callable[[str], str], opened: AsyncExitStack
    ) -> None:
        self.flavour = flavour
        self.stand = stand
        self.features = stand.features
        self.name = names
        self._opened = opened

    async def connect(self, **options: Any) -> Connection:
        """A connection of this flavour to this stand."""
        return await self._connected(self.flavour, options)

    async def connect_other(self, **options: Any) -> Connection:
        """The same in the other flavour."""
        return await self._connected(other_than(self.flavour), options)

    async def _connected(self, flavour: Flavour, options: Mapping[str, Any]) -> Connection:
        connection = await flavour.connect(self.stand.url, **options)
        self._opened.push_async_callback(connection.close, 5.0)
        return connection

    async def queue(self, mq: core.Connection, word: str = "orders", **options: Any) -> str:
        """Declares a queue as ``Topology.queue`` does, and gives its name."""
        name = self.name(word)
        await mq.declare(Topology().queue(name, **options))
        return name

    def gate(self) -> Gate:
        """A gate that holds handlers; opened after the case at the latest."""
        gate = Gate()
        self._opened.callback(gate.open)
        return gate

    def handler(self, function: Any) -> Callable[[Message], Any]:
        """A handler that calls the toolkit, as this flavour's users write it."""
        return self.flavour.handler(function)

    async def publish_raw(
        self, queue: str, body: bytes = b"{}", *, login: str = "", **properties: Any
    ) -> None:
        """Publishes to a queue as a foreign program does."""
        await self.stand.publish("", queue, Properties(**properties), body, login)


async def delivered_in_vain(api: Api, queue: str) -> None:
    """Takes a message as a process that dies: its connection goes, and there was no answer."""
    dying = await api.connect()

    async def pulled() -> Delivery | None:
        return await dying.pull(queue)

    await until(pulled, f"a message in {queue}")
    await dying.close()


async def arrived(mq: Connection, queue: str) -> Delivery:
    """Waits for a message in a queue, and takes it off."""

    async def pulled() -> Delivery | None:
        return await mq.pull(queue) if await mq.queue_exists(queue) else None

    delivery = await until(pulled, f"a message in {queue}")
    assert await delivery.ack()
    return delivery


async def holds(mq: Connection, queue: str, count: int) -> None:
    """Waits until so many messages are ready in a queue."""

    async def counted() -> bool:
        return await mq.message_count(queue) == count

    await until(counted, f"{count} messages ready in {queue}")
