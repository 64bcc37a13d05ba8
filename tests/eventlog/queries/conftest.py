"""Each case runs in both flavours: in memory, and on RabbitMQ with SQLite; some with PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import acemq_amqp
from acemq_amqp.transports.memory import forget_memory_broker, memory_broker

# pytest finds fixtures by their names in this module
from tests.contract.conftest import contract_vhost  # noqa: F401 - a fixture
from tests.contract.leftovers import nothing_left
from tests.eventlog.queries.scene import Scene
from tests.stores.conftest import postgres  # noqa: F401 - a fixture
from tests.support.bounded import bounding
from tests.support.postgres import fresh_database

pytest_collection_modifyitems = bounding(__file__)


@pytest.fixture(params=["async", "blocking"])
def flavour(request: pytest.FixtureRequest) -> str:
    """Which flavour runs the queries."""
    return str(request.param)


@pytest.fixture
async def scene(
    flavour: str,
    place: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    names: Callable[[str], str],
) -> AsyncIterator[Scene]:
    """A broker and a store; nothing may be left of it after the case."""
    async with AsyncExitStack() as around:
        database = None
        if place == "memory":
            broker = names("broker")
            url, ended = f"memory://{broker}", memory_broker(broker).kill_connections
            around.callback(forget_memory_broker, broker)
        else:
            rabbitmq = request.getfixturevalue("rabbitmq")
            url = rabbitmq.url_of(request.getfixturevalue("contract_vhost"))
            ended = rabbitmq.control.close_connections
            database = f"sqlite:///{tmp_path}/log.db"
        if place == "postgresql":
            database = around.enter_context(fresh_database(request.getfixturevalue("postgres")))
        await around.enter_async_context(nothing_left())
        opened = await around.enter_async_context(AsyncExitStack())
        mq = await acemq_amqp.connect(url)
        opened.push_async_callback(mq.close, 5.0)
        yield Scene(flavour, url, database, names, mq, opened, ended)
