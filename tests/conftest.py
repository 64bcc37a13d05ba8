"""Servers and names for the tests that need them.

``rabbitmq`` is one RabbitMQ for the whole run (under pytest-xdist: one for each worker, so that no
test sees another's alarms and connections). ``amqp_url`` is the address of a virtual host in it
that a test has for itself. ``own_rabbitmq`` is a node that a test may alarm, pause, kill and start
again.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.support.proxy import Proxy
from tests.support.rabbitmq import RabbitMQ
from tests.support.stands import Stand, find_stand, start_node, wanted_root

# How long an example takes says nothing on a busy machine.
settings.register_profile("unhurried", settings.default, deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[Stand]:
    """The RabbitMQ of this run, as ``tests/support/stands.py`` finds it. Only for reading."""
    stand = find_stand()
    yield stand
    stand.close()


@pytest.fixture
def vhost(rabbitmq: Stand, names: Callable[[str], str]) -> Iterator[str]:
    """A virtual host of the test's own, in the RabbitMQ of this run; gone after the test.

    A broker given by address has one virtual host for all tests: use ``names`` in it.
    """
    name = names("vhost")
    if rabbitmq.control is None:
        yield "/"
        return
    rabbitmq.control.add_vhost(name)
    yield name
    rabbitmq.control.delete_vhost(name)


@pytest.fixture
def amqp_url(rabbitmq: Stand, vhost: str) -> str:
    """The address of a virtual host of the test's own."""
    return rabbitmq.url_of(vhost)


@pytest.fixture
def names(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes names that no other test uses: ``names("orders")``, the same for the same word."""
    test = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40]
    unique = secrets.token_hex(4)
    return lambda word: f"{word}.{test}.{unique}"


@pytest.fixture(scope="session")
def _spare_rabbitmq() -> Iterator[RabbitMQ]:
    with start_node() as node:
        yield node


@pytest.fixture
def own_rabbitmq(_spare_rabbitmq: RabbitMQ) -> RabbitMQ:
    """A node that the test may alarm, pause, kill and restart; empty when the test begins."""
    _spare_rabbitmq.reset()
    return _spare_rabbitmq


@pytest.fixture
def start_rabbitmq() -> Iterator[Callable[..., RabbitMQ]]:
    """Starts further nodes, with the parameters of ``RabbitMQ.start``; gone after the test."""
    root = wanted_root()
    started: list[RabbitMQ] = []

    def start(**options: Any) -> RabbitMQ:
        started.append(RabbitMQ.start(root, **options))
        return started[-1]

    yield start
    for node in reversed(started):
        node.close()


@pytest.fixture
def proxy_to() -> Iterator[Callable[[int], Proxy]]:
    """Puts proxies before ports of this machine; gone after the test."""
    opened: list[Proxy] = []

    def open_proxy(port: int) -> Proxy:
        opened.append(Proxy(port))
        return opened[-1]

    yield open_proxy
    for proxy in opened:
        proxy.close()
