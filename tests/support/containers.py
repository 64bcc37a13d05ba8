"""A RabbitMQ in a container, by way of testcontainers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from tests.support.control import Controlled
from tests.support.handshake import broker_version
from tests.support.installation import ServerMissing

if TYPE_CHECKING:
    from testcontainers.rabbitmq import RabbitMqContainer

_IMAGE = "rabbitmq:4.0"


@dataclass(frozen=True)
class ContainerControl(Controlled):
    """The operator's side of a broker in a container."""

    container: RabbitMqContainer

    def ctl(self, *arguments: str) -> str:
        code, output = self.container.exec(["rabbitmqctl", *arguments])
        said = output.decode(errors="replace")
        if code != 0:
            raise RuntimeError(f"rabbitmqctl {' '.join(arguments)} failed: {said}")
        return str(said)

    def eval(self, expression: str) -> str:
        return self.ctl("--silent", "eval", f"{expression.rstrip().rstrip('.')}.").strip()


class ContainerStand:
    """A broker in a container that ends with the tests."""

    def __init__(self, container: RabbitMqContainer) -> None:
        self._container = container
        self._host = container.get_container_host_ip()
        self._port = int(container.get_exposed_port(container.port))

    @property
    def version(self) -> str:
        return broker_version(self._host, self._port) or "unknown"

    @property
    def control(self) -> Controlled:
        return ContainerControl(self._container)

    def url_of(self, vhost: str) -> str:
        return f"amqp://guest:guest@{self._host}:{self._port}/{quote(vhost, safe='')}"

    def close(self) -> None:
        self._container.stop()


def start_container(image: str = _IMAGE) -> ContainerStand:
    """Starts a container; comes back when its broker accepts connections.

    :raises ServerMissing: testcontainers is not installed, or the container does not start
    """
    try:
        from testcontainers.rabbitmq import RabbitMqContainer

        return ContainerStand(RabbitMqContainer(image).start())
    except Exception as error:
        raise ServerMissing(
            f"acemq: Docker runs here, but a container of {image} could not be started: {error}; "
            "pip install 'testcontainers[rabbitmq]' if that is what is missing, or set "
            "ACEMQ_RABBITMQ to the version of a RabbitMQ on this machine"
        ) from error
