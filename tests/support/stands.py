"""Which RabbitMQ the tests run on.

In this order: an address in the environment (``ACEMQ_TEST_AMQP_URL``, else ``AMQP_URL``); a
container, where Docker runs; a private node of a RabbitMQ on this machine. ``ACEMQ_RABBITMQ``
(3.10, 4.0 or 4.3) asks for a version, and then for a private node of it. Where there is none of
these, the tests that need one fail and say what to do: they are never skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.support.control import Controlled
from tests.support.handshake import broker_version
from tests.support.installation import find_installation
from tests.support.rabbitmq import RabbitMQ

ADDRESSES = ("ACEMQ_TEST_AMQP_URL", "AMQP_URL")
VERSION = "ACEMQ_RABBITMQ"


class Stand(Protocol):
    """A broker that tests may use and must leave clean."""

    @property
    def version(self) -> str:
        """As the broker tells it: ``"3.10.8"``."""

    @property
    def control(self) -> Controlled | None:
        """The operator's side, where the tests may have it."""

    def url_of(self, vhost: str) -> str:
        """The address of a virtual host."""

    def close(self) -> None:
        """Ends what was started for the tests."""


@dataclass(frozen=True)
class GivenAddress:
    """A broker that somebody else runs; the tests keep to the virtual host in the address."""

    url: str
    control: None = None

    @property
    def version(self) -> str:
        from acemq_amqp.address import parse_address

        address = parse_address(self.url)
        return broker_version(address.host, address.port) or "unknown"

    def url_of(self, vhost: str) -> str:
        return self.url

    def close(self) -> None:
        """Leaves it running."""


@dataclass(frozen=True)
class PrivateNode:
    """A node of the tests' own."""

    node: RabbitMQ

    @property
    def version(self) -> str:
        return self.node.version

    @property
    def control(self) -> Controlled:
        return self.node

    def url_of(self, vhost: str) -> str:
        return self.node.url_of(vhost)

    def close(self) -> None:
        self.node.close()


def find_stand(environment: Mapping[str, str] = os.environ) -> Stand:
    """Finds or starts the RabbitMQ that this run of the tests uses.

    :raises ServerMissing: there is none; the text says what to do
    """
    wanted = environment.get(VERSION)
    if not wanted:
        for name in ADDRESSES:
            if environment.get(name):
                return GivenAddress(environment[name])
        if docker_runs():
            from tests.support.containers import start_container

            return start_container()
    return PrivateNode(start_node(environment))


def start_node(environment: Mapping[str, str] = os.environ) -> RabbitMQ:
    """Starts a private node of the version asked for.

    :raises ServerMissing: it is not on this machine
    """
    return RabbitMQ.start(wanted_root(environment))


def wanted_root(environment: Mapping[str, str] = os.environ) -> Path:
    """The root of the system whose RabbitMQ the private nodes of this run are.

    :raises ServerMissing: it is not on this machine
    """
    return find_installation(environment.get(VERSION) or None).root


def docker_runs() -> bool:
    """Whether there is a Docker daemon that answers."""
    if shutil.which("docker") is None:
        return False
    try:
        asked = subprocess.run(["docker", "info"], capture_output=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0
