"""Exchanges, queues and the ways between them: everything a broker holds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from acemq_amqp.core.ports import Confirmed, Outcome, Refused
from acemq_amqp.topology import (
    BindingDeclaration,
    Declaration,
    ExchangeDeclaration,
    QueueDeclaration,
)
from acemq_amqp.transports.memory import refusals
from acemq_amqp.transports.memory.arguments import queue_options
from acemq_amqp.transports.memory.deadletters import dead_letter, goes_in_circles
from acemq_amqp.transports.memory.equivalence import check_exchange, check_queue
from acemq_amqp.transports.memory.exchanges import (
    STANDING,
    Exchange,
    check_exchange_declaration,
)
from acemq_amqp.transports.memory.messages import Message
from acemq_amqp.transports.memory.queues import Queue, Reason
from acemq_amqp.transports.memory.routing import Router
from acemq_amqp.transports.memory.runtime import Runtime
from acemq_amqp.transports.memory.stores import Store
from acemq_amqp.transports.memory.streams import Stream

_TAKEN = Confirmed()
_NO_ROUTE = Confirmed(routed=False, reason="NO_ROUTE")
_FULL = Refused("a queue is full and refuses what is published", stored="perhaps")


class VirtualHost:
    """What is declared, and what is published into it. Used under the broker's lock."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.exchanges = {each.name: Exchange(each) for each in STANDING}
        self.queues: dict[str, Store] = {}
        #: of quorum queues that are declared without one
        self.delivery_limit: int | None = None
        self._router = Router(self.exchanges, self.queues)

    # ------------------------------------------------------------ declaring

    def declare(self, step: Declaration, owner: object) -> None:
        """Declares an exchange, a queue or a binding.

        :raises BrokerError: what RabbitMQ refuses too
        :raises ConfigurationError: what only this broker does not do
        """
        if isinstance(step, ExchangeDeclaration):
            self._declare_exchange(step)
        elif isinstance(step, QueueDeclaration):
            self._declare_queue(step, owner)
        else:
            self._bind(step, owner)
        self._router.forget()

    def _declare_exchange(self, step: ExchangeDeclaration) -> None:
        if not step.name:
            raise refusals.default_exchange()
        check_exchange_declaration(step)
        current = self.exchanges.get(step.name)
        if current is not None:
            check_exchange(current.declaration, step)
        elif step.name.startswith("amq."):
            raise refusals.reserved("exchange", step.name)
        else:
            self.exchanges[step.name] = Exchange(step)

    def _declare_queue(self, step: QueueDeclaration, owner: object) -> None:
        current = self.queues.get(step.name)
        if current is not None:
            if current.owner is not (owner if step.exclusive else None):
                raise refusals.locked(step.name)
            check_queue(current.declaration, step)
            current.used()
            return
        if step.name.startswith("amq."):
            raise refusals.reserved("queue", step.name)
        options = queue_options(step)
        if options.kind == "quorum" and options.delivery_limit is None:
            options = replace(options, delivery_limit=self.delivery_limit)
        if options.kind == "stream":
            self.queues[step.name] = Stream(step, options, self._runtime, self.delete)
            return
        holder = owner if step.exclusive else None
        self.queues[step.name] = Queue(
            step, options, holder, self._runtime, self.delete, self._bury
        )

    def _bind(self, step: BindingDeclaration, owner: object) -> None:
        if not step.source or (step.to_exchange and not step.destination):
            raise refusals.default_exchange()
        if step.to_exchange:
            durable = self.exchange(step.destination).declaration.durable
        else:
            durable = self.queue(step.destination, owner).declaration.durable
        source = self.exchange(step.source)
        source.bind(step, durable and source.declaration.durable)

    # ------------------------------------------------------------ looking up, deleting

    def exchange(self, name: str) -> Exchange:
        """:raises NotFound: there is none"""
        found = self.exchanges.get(name)
        if found is None:
            raise refusals.no_exchange(name)
        return found

    def queue(self, name: str, owner: object) -> Store:
        """:raises NotFound: there is none; AccessRefused: it is another connection's"""
        found = self.queues.get(name)
        if found is None:
            raise refusals.no_queue(name)
        if found.owner is not None and found.owner is not owner:
            raise refusals.locked(name)
        return found

    def delete(self, queue: Store, why: str = "the queue was deleted") -> None:
        """Deletes a queue with its messages and bindings, and dismisses its consumers."""
        if queue.deleted:
            return
        queue.deleted = True
        del self.queues[queue.name]
        self._router.forget()
        queue.dismiss(why)
        self._unbind(queue.name, to_exchange=False)

    def _delete_exchange(self, name: str) -> None:
        del self.exchanges[name]
        self._unbind(name, to_exchange=True)

    def _unbind(self, destination: str, *, to_exchange: bool) -> None:
        """Takes out the bindings to something that went, and the exchanges that lived by them."""
        for exchange in list(self.exchanges.values()):
            unbound = exchange.unbind(destination, to_exchange)
            if unbound and exchange.declaration.auto_delete and not exchange.bindings:
                self._delete_exchange(exchange.name)

    # ------------------------------------------------------------ publishing

    def publish(self, message: Message) -> Outcome:
        """Stores a message in every queue that it is routed to."""
        exchange = message.exchange
        if exchange and exchange not in self.exchanges:
            return Refused(f"NOT_FOUND - no exchange '{exchange}' in vhost '/'", code=404)
        queues = self._router.route(exchange, message.routing_keys, message.properties)
        if not queues:
            return _NO_ROUTE
        taken = True
        for queue in queues:
            taken &= queue.publish(message)
        return _TAKEN if taken else _FULL

    def _bury(self, queue: Queue, message: Message, reason: Reason) -> None:
        if queue.options.dead_letter_exchange is not None:
            self._runtime.follow(partial(self._dead_letter, queue, message, reason))

    def _dead_letter(self, queue: Queue, message: Message, reason: Reason) -> None:
        options = queue.options
        exchange = options.dead_letter_exchange or ""
        if exchange and exchange not in self.exchanges:
            return
        now = self._runtime.clock.now()
        dead = dead_letter(message, reason, queue.name, exchange, options.dead_letter_key, now)
        for target in self._router.route(exchange, dead.routing_keys, dead.properties):
            if reason == "rejected" or not goes_in_circles(dead, target.name):
                target.publish(dead)

    # ------------------------------------------------------------ going down and up

    def disown(self, owner: object) -> None:
        """Deletes the exclusive queues of a connection that went."""
        for queue in [q for q in self.queues.values() if q.owner is owner]:
            self.delete(queue)

    def restart(self) -> None:
        """Keeps what is durable, as a broker does that went down and came up."""
        for queue in list(self.queues.values()):
            if queue.declaration.durable:
                queue.restart()
            else:
                self.delete(queue)
        for exchange in list(self.exchanges.values()):
            if not exchange.declaration.durable and exchange.name in self.exchanges:
                self._delete_exchange(exchange.name)
        self._router.forget()
