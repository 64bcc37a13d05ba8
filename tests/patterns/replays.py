"""Replay and browse of either flavour, behind the async one's face."""

from __future__ import annotations

from typing import Any, cast

from acemq_amqp import Connection, Message, Topology
from acemq_amqp.blocking import patterns as blocking_patterns
from acemq_amqp.patterns import ReplayResult, browse, replay
from acemq_amqp.properties import Properties
from tests.contract import threads
from tests.contract.api import Api, holds


async def replayed(api: Api, mq: Connection, queue: str, **options: Any) -> ReplayResult:
    """Replays in the case's flavour."""
    if api.flavour.name == "async":
        return await replay(mq, queue, **options)
    inner = mq._inner  # type: ignore[attr-defined]
    result = await threads.run(lambda: blocking_patterns.replay(inner, queue, **options))
    return cast(ReplayResult, result)


async def browsed(api: Api, mq: Connection, queue: str, **options: Any) -> list[Message]:
    """Browses in the case's flavour."""
    if api.flavour.name == "async":
        return await browse(mq, queue, **options)
    inner = mq._inner  # type: ignore[attr-defined]
    found = await threads.run(lambda: blocking_patterns.browse(inner, queue, **options))
    return cast("list[Message]", found)


async def dead_letters(api: Api, mq: Connection, bodies: list[bytes], **properties: Any) -> str:
    """A queue with these dead letters, as this library writes them; gives its name."""
    queue = api.name("orders")
    await mq.declare(Topology().queue(queue, dead_letter=True))
    for number, body in enumerate(bodies, 1):
        headers = {
            "x-acemq-id": f"m-{number}",
            "x-acemq-type": "order",
            "x-acemq-attempt": 3,
            "x-acemq-error": "exhausted 3 attempts: ValueError: no",
            "x-acemq-exchange": "shop",
            "x-acemq-routing-key": "order.placed",
            "tenant": "north",
        }
        await publish(api, f"{queue}.dlq", body, headers, **properties)
    await holds(mq, f"{queue}.dlq", len(bodies))
    return queue


async def publish(
    api: Api, queue: str, body: bytes, headers: dict[str, Any], **properties: Any
) -> None:
    """Publishes to a queue as a foreign program does."""
    from acemq_amqp.fieldtable import HeaderTable

    told = Properties(headers=HeaderTable.of(headers), **properties)
    await api.stand.publish("", queue, told, body)


async def bodies_in(mq: Connection, queue: str) -> list[bytes]:
    """Takes all that is in a queue, in its order."""
    found = []
    while (delivery := await mq.pull(queue)) is not None:
        found.append(delivery.body)
        await delivery.ack()
    return found
