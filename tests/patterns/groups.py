"""Consumer groups of either flavour, behind the async one's face."""

from __future__ import annotations

from typing import Any, cast

from acemq_amqp import Connection
from acemq_amqp.blocking.patterns import ConsumerGroup as BlockingGroup
from acemq_amqp.patterns import ConsumerGroup
from tests.contract import threads
from tests.contract.api import Api

threads.TWINS[BlockingGroup] = ConsumerGroup


async def start_group(
    api: Api, mq: Connection, queue: str, size: int, handler: Any, **options: Any
) -> ConsumerGroup:
    """A group of the case's flavour; closed after the case at the latest."""
    if api.flavour.name == "async":
        group = await ConsumerGroup.start(mq, queue, size, handler, **options)
    else:
        inner = mq._inner  # type: ignore[attr-defined]
        group = cast(
            ConsumerGroup,
            threads.Awaited(
                await threads.run(
                    lambda: BlockingGroup.start(inner, queue, size, handler, **options)
                )
            ),
        )
    api._opened.push_async_callback(group.close, 5.0)
    return group
