"""Starting consumers: what was asked for is checked first, then carried out or left undone.

A caller that is cancelled in between has no consumer, and none is left running for nobody.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from acemq_amqp.core import checks
from acemq_amqp.core.attachment import ConsumerSpec
from acemq_amqp.core.catalogue import Catalogue
from acemq_amqp.core.consumer import Consumer
from acemq_amqp.core.keeper import Keeper
from acemq_amqp.core.observer import Observing
from acemq_amqp.core.options import Options
from acemq_amqp.core.outgoing import checked_name
from acemq_amqp.core.ports import Call, Work
from acemq_amqp.core.settling import Settler
from acemq_amqp.core.supervisor import Supervisor
from acemq_amqp.declarations import QueueDeclaration
from acemq_amqp.topology import Topology, failure_topology

_SINGLE_ACTIVE = "x-single-active-consumer"
_EXPIRES = "x-expires"


class _Starting:
    """Whether the caller of ``consume`` still waits for its consumer."""

    abandoned = False
    done = False


class Consuming:
    """Makes the consumers of one connection."""

    def __init__(
        self,
        work: Work,
        options: Options,
        control: Supervisor,
        catalogue: Catalogue,
        keeper: Keeper,
        settler: Settler,
        observing: Observing,
    ) -> None:
        self._work = work
        self._options = options
        self._control = control
        self._catalogue = catalogue
        self._keeper = keeper
        self._settler = settler
        self._observing = observing

    async def consume(
        self, queue: str, handler: Any, *, single_active: bool, inline: bool, **asked: Any
    ) -> Consumer:
        """As ``Connection.consume``."""
        spec = self._spec(queue, checks.flag(single_active, "single_active"), **asked)
        call = self._work.bind(self._wrapped(handler), inline=checks.flag(inline, "inline"))
        deadline = self._work.clock.monotonic() + self._options.timeout
        if single_active:
            await self._work.finish(self._declare_single_active(queue, deadline))
        return await self._started(spec, call, deadline)

    def _spec(
        self,
        queue: str,
        single_active: bool,
        *,
        codec: Any,
        retry: Any,
        prefetch: int | None,
        concurrency: int,
        tag: str,
        args: Any,
        declare: bool,
        max_deliveries: int,
        spill: bool,
    ) -> ConsumerSpec:
        options = self._options
        places, workers = checks.prefetch_and_concurrency(
            options.prefetch if prefetch is None else prefetch, concurrency
        )
        declared = self._catalogue.declaration_of(queue)
        ordered = single_active or _is_single_active(declared)
        spec = ConsumerSpec(
            checked_name(queue, "a queue name"),
            options.codec if codec is None else checks.checked_codec(codec),
            options.retry if retry is None else checks.checked_retry(retry),
            places,
            workers,
            checked_name(tag, "a consumer tag"),
            checks.checked_arguments(args),
            checks.flag(declare, "declare"),
            ordered,
            checks.whole(max_deliveries, "max_deliveries"),
            checks.flag(spill, "spill") and declare and not ordered and not _refuses(declared),
            _vanishes(declared),
        )
        failure_topology(queue, spec.policy)  # a name or wait that cannot be is refused here
        return spec

    def _wrapped(self, handler: Any) -> Any:
        self._work.bind(handler)  # refused here, before an interceptor hides what it is
        for interceptor in reversed(self._options.on_consume):
            handler = interceptor(handler)
        return handler

    async def _started(self, spec: ConsumerSpec, call: Call, deadline: float) -> Consumer:
        consumer = Consumer(spec, call, self._work, self._settler, self._observing, self._keeper)
        starting = _Starting()
        try:
            await self._work.finish(self._start(consumer, deadline, starting))
        except BaseException:
            starting.abandoned = True
            if starting.done:  # cancelled between its start and being told of it
                self._work.spawn(consumer.close_by(deadline), f"acemq-{spec.queue}-closing")
            raise
        return consumer

    async def _start(self, consumer: Consumer, deadline: float, starting: _Starting) -> None:
        await self._keeper.start(consumer, deadline)
        starting.done = True
        if starting.abandoned:  # its caller was cancelled meanwhile, and nobody has it
            await consumer.close_by(deadline)

    # ------------------------------------------------------------ single active consumers

    async def _declare_single_active(self, queue: str, deadline: float) -> None:
        declared = self._catalogue.declaration_of(queue)
        if declared is None:
            step = Topology().queue(queue, single_active=True).queues[0]
        else:
            step = dataclasses.replace(
                declared, arguments={**declared.arguments, _SINGLE_ACTIVE: True}
            )
        await (await self._control.connected(deadline)).declare(step, deadline)


def _is_single_active(declared: QueueDeclaration | None) -> bool:
    return declared is not None and declared.arguments.get(_SINGLE_ACTIVE) is True


def _refuses(declared: QueueDeclaration | None) -> bool:
    """Whether what comes back from a rung may find the queue full, and be lost."""
    overflow = None if declared is None else declared.arguments.get("x-overflow")
    return isinstance(overflow, str) and overflow.startswith("reject-publish")


def _vanishes(declared: QueueDeclaration | None) -> bool:
    """Whether the broker deletes it for having no consumer."""
    return declared is not None and (declared.auto_delete or _EXPIRES in declared.arguments)
