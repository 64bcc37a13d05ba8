"""Each case that asks for ``api`` runs four times, as those of the contract do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from acemq_amqp import Message
from acemq_amqp.ack import Ack
from acemq_amqp.patterns import idempotent

# pytest finds fixtures by their names in this module
from tests.contract.conftest import api, contract_vhost, flavour, stand  # noqa: F401 - fixtures
from tests.support.bounded import bounding

pytest_collection_modifyitems = bounding(__file__)


@pytest.fixture(params=["plain", "coroutine"])
def wrapped(request: pytest.FixtureRequest) -> Callable[..., Callable[[Message], Ack]]:
    """Wraps a plain function, as it is or as a coroutine function; gives something to call."""

    def wrap(store: Any, function: Callable[[Message], Any], **options: Any) -> Any:
        if request.param == "plain":
            return idempotent(store, function, **options)

        async def handler(message: Message) -> Any:
            return function(message)

        guarded = idempotent(store, handler, **options)
        return lambda message: asyncio.run(guarded(message))

    return wrap
