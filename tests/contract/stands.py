"""The stands: brokers that the suite runs on, what each cannot do, and trouble made on purpose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

from acemq_amqp.properties import Properties
from acemq_amqp.transports.memory import MemoryBroker, memory_broker
from tests.contract import threads
from tests.contract.raw import publish_in_memory, publish_with_pika
from tests.support.control import Controlled

#: a second login, on stands that keep logins
OTHER_LOGIN = "ferry"


@dataclass(frozen=True)
class Features:
    """What a broker cannot do, and refuses by name. All else is the same everywhere.

    :ivar unknown_arguments: arguments of queues that it does not know are let pass
    :ivar transient_queues: a queue may be neither durable nor exclusive
    """

    unknown_arguments: bool = True
    transient_queues: bool = True


FEATURES = {
    "memory": Features(unknown_arguments=False),
    "3.10": Features(),
    "4.0": Features(),
    "4.3": Features(),
}


def features_of(version: str) -> Features:
    """What a RabbitMQ of this version can do: as the newest of the table that is no newer."""
    told = _numbers(version)
    known = [each for each in FEATURES if each != "memory" and _numbers(each) <= told]
    return FEATURES[max(known, key=_numbers, default="3.10")]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


class Stand(Protocol):
    """One broker, empty when a case begins."""

    @property
    def url(self) -> str: ...

    @property
    def features(self) -> Features: ...

    async def publish(
        self, exchange: str, key: str, properties: Properties, body: bytes, login: str = ""
    ) -> None:
        """Publishes as a foreign program does; ``login`` other than ours, if given."""

    async def raise_alarm(self) -> None: ...

    async def end_alarm(self) -> None: ...

    async def calm(self) -> None:
        """Ends the alarm, if there is one."""

    async def end_connections(self) -> None:
        """An operator ends every connection."""

    async def stop(self) -> None:
        """The broker goes down."""


class MemoryStand:
    """The broker in memory."""

    features = FEATURES["memory"]

    def __init__(self, name: str) -> None:
        self.url = f"memory://{name}"
        self.broker: MemoryBroker = memory_broker(name)

    async def publish(
        self, exchange: str, key: str, properties: Properties, body: bytes, login: str = ""
    ) -> None:
        await publish_in_memory(self.url, exchange, key, properties, body, login)

    async def raise_alarm(self) -> None:
        self.broker.block()

    async def end_alarm(self) -> None:
        self.broker.unblock()

    async def calm(self) -> None:
        self.broker.unblock()

    async def end_connections(self) -> None:
        self.broker.kill_connections()

    async def stop(self) -> None:
        self.broker.stop()


class RabbitStand:
    """A RabbitMQ.

    :param control: its operator's side, where there is one
    :param stopping: takes it down, where the case has it for itself
    """

    def __init__(
        self,
        url: str,
        version: str,
        control: Controlled | None,
        vhost: str = "/",
        stopping: Callable[[], None] | None = None,
    ) -> None:
        self.url = url
        self.features = features_of(version)
        self._control = control
        self._vhost = vhost
        self._stopping = stopping
        self._alarmed = False

    async def publish(
        self, exchange: str, key: str, properties: Properties, body: bytes, login: str = ""
    ) -> None:
        url = self.url
        if login:
            await threads.run(lambda: self._add_login(login))
            url = as_login(url, login)
        await threads.run(lambda: publish_with_pika(url, exchange, key, properties, body))

    async def raise_alarm(self) -> None:
        self._alarmed = True
        await threads.run(self._operator.alarm)

    async def end_alarm(self) -> None:
        await threads.run(self._operator.clear_alarm)
        self._alarmed = False

    async def calm(self) -> None:
        if self._alarmed:
            await self.end_alarm()

    async def end_connections(self) -> None:
        await threads.run(self._operator.close_connections)

    async def stop(self) -> None:
        assert self._stopping is not None, "this broker is shared"
        await threads.run(self._stopping)

    @property
    def _operator(self) -> Controlled:
        assert self._control is not None, "a broker given by address is not ours to operate"
        return self._control

    def _add_login(self, login: str) -> None:
        add = "rabbit_auth_backend_internal:add_user({0}, {0}, {1})"
        allow = "rabbit_auth_backend_internal:set_permissions({0}, {2}, {3}, {3}, {3}, {1})"
        words = [f'<<"{word}">>' for word in (login, "tests", self._vhost, ".*")]
        self._operator.eval(f"catch {add.format(*words)}, {allow.format(*words)}")


def as_login(url: str, login: str) -> str:
    """The same address under another login, whose password is its name."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{login}:{login}@{place}"))
