"""Each case runs in both flavours: in memory, and on RabbitMQ with SQLite; some with PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from acemq_amqp.transports.memory import forget_memory_broker, memory_broker

# pytest finds fixtures by their names in this module
from tests.contract.conftest import contract_vhost  # noqa: F401 - a fixture
from tests.contract.leftovers import nothing_left
from tests.eventlog.groups.scene import Scene
from tests.stores.conftest import postgres  # noqa: F401 - a fixture
from tests.support.bounded import bounding
from tests.support.postgres import fresh_database

pytest_collection_modifyitems = bounding(__file__)


@pytest.fixture(params=["async", "blocking"])
def flavour(request: pytest.FixtureRequest) -> str:
    """Which flavour reads."""
    return str(request.param)


@pytest.fixture
async def scene(
    flavour: str,
    place: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    names: Callable[[str], str],
) -> AsyncIterator[Scene]:
    """A broker and a store; nothing may be left of them after the case."""
    async with AsyncExitStack() as around:
        database = cut = None
        if place == "memory":
            name = names("broker")
            url, cut = f"memory://{name}", memory_broker(name).kill_connections
            around.callback(forget_memory_broker, name)
        else:
            rabbitmq = request.getfixturevalue("rabbitmq")
            url = rabbitmq.url_of(request.getfixturevalue("contract_vhost"))
            cut = rabbitmq.control.close_connections if rabbitmq.control else None
            database = f"sqlite:///{tmp_path}/log.db"
        if place == "postgresql":
            database = around.enter_context(fresh_database(request.getfixturevalue("postgres")))
        await around.enter_async_context(nothing_left())
        opened = await around.enter_async_context(AsyncExitStack())
        yield Scene(flavour, url, database, names, opened, cut)
