"""Relays of either flavour, behind the async one's face."""

from __future__ import annotations

from typing import Any, cast

from acemq_amqp import Connection
from acemq_amqp.blocking.patterns import OutboxRelay as BlockingRelay
from acemq_amqp.patterns import OutboxRelay
from tests.contract import threads
from tests.contract.api import Api

threads.TWINS[BlockingRelay] = OutboxRelay


def make_relay(api: Api, mq: Connection, store: Any, **options: Any) -> OutboxRelay:
    """A relay of the case's flavour; closed after the case at the latest."""
    if api.flavour.name == "async":
        relay = OutboxRelay(mq, store, **options)
    else:
        inner = mq._inner  # type: ignore[attr-defined]
        relay = cast(OutboxRelay, threads.Awaited(BlockingRelay(inner, store, **options)))
    api._opened.push_async_callback(relay.close, 5.0)
    return relay
