"""Each case runs four times: in both flavours, on the broker in memory and on RabbitMQ."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack

import pytest

from acemq_amqp.transports.memory import forget_memory_broker
from tests.contract.api import Api
from tests.contract.flavours import FLAVOURS, Flavour
from tests.contract.leftovers import nothing_left
from tests.contract.stands import MemoryStand, RabbitStand, Stand
from tests.support.bounded import bounding
from tests.support.rabbitmq import RabbitMQ
from tests.support.stands import Stand as Broker

_STANDS = ["memory", pytest.param("rabbitmq", marks=pytest.mark.server)]

pytest_collection_modifyitems = bounding(__file__)


@pytest.fixture(params=list(FLAVOURS))
def flavour(request: pytest.FixtureRequest) -> Flavour:
    """The async or the blocking flavour."""
    return FLAVOURS[request.param]


@pytest.fixture(scope="module")
def contract_vhost(rabbitmq: Broker) -> Iterator[str]:
    """A virtual host for one file of cases, which keep apart by names."""
    name = f"contract.{secrets.token_hex(4)}"
    if rabbitmq.control is None:
        yield "/"
        return
    rabbitmq.control.add_vhost(name)
    yield name
    rabbitmq.control.delete_vhost(name)


@pytest.fixture(params=_STANDS)
def stand(request: pytest.FixtureRequest, names: Callable[[str], str]) -> Iterator[Stand]:
    """A broker, empty."""
    if request.param == "memory":
        yield from _in_memory(names("broker"))
        return
    rabbitmq = request.getfixturevalue("rabbitmq")
    vhost = request.getfixturevalue("contract_vhost")
    yield RabbitStand(rabbitmq.url_of(vhost), rabbitmq.version, rabbitmq.control, vhost)


@pytest.fixture(params=_STANDS)
def troubled_stand(request: pytest.FixtureRequest, names: Callable[[str], str]) -> Iterator[Stand]:
    """A broker of the case's own, to alarm and to stop."""
    if request.param == "memory":
        yield from _in_memory(names("broker"))
        return
    node: RabbitMQ = request.getfixturevalue("own_rabbitmq")
    yield RabbitStand(node.url, node.version, node, stopping=node.stop)


def _in_memory(name: str) -> Iterator[Stand]:
    yield MemoryStand(name)
    forget_memory_broker(name)


@pytest.fixture
async def api(flavour: Flavour, stand: Stand, names: Callable[[str], str]) -> AsyncIterator[Api]:
    """One flavour on one stand; nothing may be left of it after the case."""
    async with nothing_left(), AsyncExitStack() as opened:
        yield Api(flavour, stand, names, opened)


@pytest.fixture
async def troubled(
    flavour: Flavour, troubled_stand: Stand, names: Callable[[str], str]
) -> AsyncIterator[Api]:
    """As ``api``, on a broker that the case may alarm and stop."""
    async with nothing_left(), AsyncExitStack() as opened:
        yield Api(flavour, troubled_stand, names, opened)
        await troubled_stand.calm()  # so that connections close without its deadline
