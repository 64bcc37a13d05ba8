"""What was declared through a connection, so that it can be declared again.

A recovered connection gets all of it, bindings included, before any consumer: a
rung whose queue is not bound when it expires would drop its messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from acemq_amqp.core.ports import Deadline, Link, Work
from acemq_amqp.errors import BrokerError, BrokerTimeout, ConnectionLost
from acemq_amqp.topology import (
    BindingDeclaration,
    Declaration,
    ExchangeDeclaration,
    QueueDeclaration,
    Topology,
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One object that is not as a topology says.

    :ivar subject: the declaration, in words
    :ivar problem: ``missing``, ``not verifiable``, or the first argument that differs
    """

    subject: str
    problem: str


class Catalogue:
    """The declarations of one connection, in order and without repeats."""

    def __init__(self, work: Work) -> None:
        self._lock = work.lock()
        self._topology = Topology()

    def remember(self, topology: Topology) -> None:
        """Keeps for recovery what the broker has accepted.

        What stood under one of its names in another way was gone, with its bindings.
        """
        with self._lock:
            self._topology = _without_others(self._topology, topology) + topology

    def forget_queue(self, name: str) -> None:
        """A queue that was deleted here is not brought back."""
        with self._lock:
            self._topology = _without(self._topology, name)

    def plan(self) -> tuple[Declaration, ...]:
        """Everything, in the order it has to be declared."""
        return self._topology.plan()

    def plan_for(self, queue: str) -> tuple[Declaration, ...]:
        """The queue and what leads to it, exchanges included, if it was declared here."""
        topology = self._topology
        if all(step.name != queue for step in topology.queues):
            return ()
        sources, bindings = _leading_to(topology, queue)
        return (
            *(step for step in topology.exchanges if step.name in sources),
            *(step for step in topology.queues if step.name == queue),
            *bindings,
        )

    def declaration_of(self, queue: str) -> QueueDeclaration | None:
        """How a queue was declared here."""
        for step in self.plan():
            if isinstance(step, QueueDeclaration) and step.name == queue:
                return step
        return None


def concerns(step: Declaration, queue: str) -> bool:
    """Whether it declares this queue, or a binding of it."""
    if isinstance(step, QueueDeclaration):
        return step.name == queue
    if isinstance(step, BindingDeclaration):
        return step.destination == queue and not step.to_exchange
    return False


def _leading_to(topology: Topology, queue: str) -> tuple[set[str], list[BindingDeclaration]]:
    """The exchanges whose messages reach a queue, and the bindings on the way."""
    found = [step for step in topology.bindings if concerns(step, queue)]
    sources: set[str] = set()
    for step in found:  # which grows meanwhile
        if step.source not in sources:
            sources.add(step.source)
            found += [
                other
                for other in topology.bindings
                if other.to_exchange and other.destination == step.source
            ]
    return sources, found


def _without_others(topology: Topology, accepted: Topology) -> Topology:
    """Without what has the name of something accepted, and is declared otherwise."""
    exchanges = {step.name: step for step in accepted.exchanges}
    queues = {step.name: step for step in accepted.queues}
    gone_exchanges = {e.name for e in topology.exchanges if exchanges.get(e.name, e) != e}
    gone_queues = {q.name for q in topology.queues if queues.get(q.name, q) != q}
    return Topology(
        tuple(step for step in topology.exchanges if step.name not in gone_exchanges),
        tuple(step for step in topology.queues if step.name not in gone_queues),
        tuple(
            step
            for step in topology.bindings
            if step.source not in gone_exchanges
            and step.destination not in (gone_exchanges if step.to_exchange else gone_queues)
        ),
    )


def _without(topology: Topology, queue: str) -> Topology:
    return Topology(
        exchanges=topology.exchanges,
        queues=tuple(step for step in topology.queues if not concerns(step, queue)),
        bindings=tuple(step for step in topology.bindings if not concerns(step, queue)),
    )


async def declare_all(link: Link, steps: tuple[Declaration, ...], deadline: Deadline) -> None:
    """Declares in order; the first failure is raised."""
    for step in steps:
        await link.declare(step, deadline)


async def declare_each(
    link: Link, steps: Iterable[Declaration], deadline: Deadline
) -> list[tuple[Declaration, BrokerError]]:
    """Declares in order whatever can be declared, and gives what could not be, and why.

    :raises ConnectionLost: the link is gone
    """
    failed: list[tuple[Declaration, BrokerError]] = []
    for step in steps:
        try:
            await link.declare(step, deadline)
        except ConnectionLost:
            raise
        except BrokerError as failure:
            failed.append((step, failure))
    return failed


async def differences(link: Link, topology: Topology, deadline: Deadline) -> list[Difference]:
    """Compares a topology with the broker, and creates nothing.

    What exists is declared equally, which the broker refuses where an argument differs.
    Bindings cannot be looked up over AMQP.
    """
    found: list[Difference] = []
    for step in topology.plan():
        problem = await _problem(link, step, deadline)
        if problem:
            found.append(Difference(str(step), problem))
    return found


async def _problem(link: Link, step: Declaration, deadline: Deadline) -> str:
    if isinstance(step, BindingDeclaration):
        return "not verifiable over AMQP"
    try:
        if not await _exists(link, step, deadline):
            return "missing"
        await link.declare(step, deadline)
    except (ConnectionLost, BrokerTimeout):
        raise  # which tells nothing of the object
    except BrokerError as failure:
        return str(failure)
    return ""


async def _exists(
    link: Link, step: ExchangeDeclaration | QueueDeclaration, deadline: Deadline
) -> bool:
    if isinstance(step, ExchangeDeclaration):
        return await link.look_up_exchange(step.name, deadline)
    return await link.look_up_queue(step.name, deadline) is not None
