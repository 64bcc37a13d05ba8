"""The side channel: declares, look-ups, deletes and purges, one after the other.

What the broker refuses closes this channel and nothing else; the next call opens
another. The error of a call names what was asked for and holds the broker's words.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pamqp.base import Frame

from acemq_amqp.core.ports import Deadline, QueueState
from acemq_amqp.errors import NotFound
from acemq_amqp.topology import BindingDeclaration, Declaration, ExchangeDeclaration
from acemq_amqp.transports.aiopika.channels import Channels, LiveChannel
from acemq_amqp.transports.aiopika.requests import (
    ExchangeBind,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
)


class SideChannel:
    """Asks the broker about its exchanges and queues, and changes them."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._turn = asyncio.Lock()
        self._channel: LiveChannel | None = None

    async def declare(self, step: Declaration, deadline: Deadline) -> None:
        """Declares one thing.

        :raises DeclarationMismatch: it exists with other arguments
        """
        request, asked = _declaring(step)
        await self._call(request, deadline, asked, declaring=True)

    async def look_up_queue(self, name: str, deadline: Deadline) -> QueueState | None:
        """What a queue holds, or None where there is none."""
        request = QueueDeclare(name, passive=True)
        try:
            answer = await self._call(request, deadline, f"looking up queue {name!r}")
        except NotFound:
            return None
        return QueueState(answer.message_count, answer.consumer_count)

    async def look_up_exchange(self, name: str, deadline: Deadline) -> bool:
        """Whether an exchange is there. The default exchange always is."""
        if not name:
            return True
        request = ExchangeDeclare(name, passive=True)
        try:
            await self._call(request, deadline, f"looking up exchange {name!r}")
        except NotFound:
            return False
        return True

    async def delete_queue(self, name: str, deadline: Deadline) -> int:
        """Deletes a queue and its messages, whose number it returns."""
        answer = await self._call(QueueDelete(name), deadline, f"deleting queue {name!r}")
        return int(answer.message_count)

    async def purge_queue(self, name: str, deadline: Deadline) -> int:
        """Throws away what waits in a queue, and returns how many messages that were."""
        answer = await self._call(QueuePurge(name), deadline, f"purging queue {name!r}")
        return int(answer.message_count)

    # ------------------------------------------------------------ inside

    async def _call(
        self, request: Frame, deadline: Deadline, asked: str, *, declaring: bool = False
    ) -> Any:
        in_turn = self._in_turn(request, asked, declaring)
        return await self._channels.calls.ask(in_turn, deadline, asked)

    async def _in_turn(self, request: Frame, asked: str, declaring: bool) -> Any:
        async with self._turn:
            if self._channel is None or not self._channel.usable:
                self._channel = await self._channels.open(None, asked)
            return await self._channel.call(request, None, asked, declaring=declaring)


def _declaring(step: Declaration) -> tuple[Frame, str]:
    if isinstance(step, ExchangeDeclaration):
        request: Frame = ExchangeDeclare(
            step.name,
            step.kind,
            durable=step.durable,
            auto_delete=step.auto_delete,
            arguments=step.arguments,
        )
        return request, f"declaring exchange {step.name!r}"
    if isinstance(step, BindingDeclaration):
        return _binding(step)
    request = QueueDeclare(
        step.name,
        durable=step.durable,
        exclusive=step.exclusive,
        auto_delete=step.auto_delete,
        arguments=step.arguments,
    )
    return request, f"declaring queue {step.name!r}"


def _binding(step: BindingDeclaration) -> tuple[Frame, str]:
    make = ExchangeBind if step.to_exchange else QueueBind
    kind = "exchange" if step.to_exchange else "queue"
    asked = f"binding {kind} {step.destination!r} to {step.source!r} by {step.routing_key!r}"
    return make(step.destination, step.source, step.routing_key, step.arguments), asked
