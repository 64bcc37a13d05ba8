"""What stands on the broker, as a value.

A :class:`Topology` is built in steps, merged with ``+`` and read with :meth:`~Topology.plan`
before anything is declared. Its names and arguments are the wire contract's: two services
that declare one queue with different arguments cannot both run. Contradictions are
refused here, where the line that made them is in the traceback, and not by the broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from acemq_amqp.declarations import (
    BindingDeclaration,
    Declaration,
    ExchangeDeclaration,
    QueueDeclaration,
    checked_flags,
    mapping_by_name,
)
from acemq_amqp.durations import Duration
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.naming import (
    DEAD_LETTER_EXCHANGE,
    RETRY_EXCHANGE,
    SCHEDULE_CONTROL_QUEUE,
    SCHEDULE_EXCHANGE,
    dead_letter_queue,
    parked_queue,
    retry_queue,
    rung_label,
    rung_ttl,
)
from acemq_amqp.retention import StreamRetention
from acemq_amqp.retry import RetryPolicy

__all__ = [
    "BindingDeclaration",
    "Declaration",
    "ExchangeDeclaration",
    "QueueDeclaration",
    "StreamRetention",
    "Topology",
    "failure_topology",
    "rung_topology",
    "schedule_topology",
]

_SCHEDULE_RUNGS: Final = (3600, 600, 60, 10, 1)


_Named = TypeVar("_Named", ExchangeDeclaration, QueueDeclaration)


@dataclass(frozen=True, slots=True)
class Topology:
    """Exchanges, queues and bindings, declared together. Immutable; each step gives a new one.

    Declaring one thing twice alike is the same as once; declaring one name in two ways raises
    :class:`ConfigurationError` and tells both.
    """

    exchanges: tuple[ExchangeDeclaration, ...] = ()
    queues: tuple[QueueDeclaration, ...] = ()
    bindings: tuple[BindingDeclaration, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "exchanges", _agreed(self.exchanges))
        object.__setattr__(self, "queues", _agreed(self.queues))
        once = [each for i, each in enumerate(self.bindings) if each not in self.bindings[:i]]
        object.__setattr__(self, "bindings", tuple(once))

    def exchange(
        self,
        name: str,
        kind: str = "topic",
        *,
        durable: bool = True,
        auto_delete: bool = False,
        args: Mapping[str, Any] | None = None,
    ) -> Topology:
        """With an exchange.

        :param kind: ``topic``, ``direct``, ``fanout``, ``headers``, or a plugin's
        """
        declared = ExchangeDeclaration(name, kind, durable, auto_delete, args or {})
        return self + Topology(exchanges=(declared,))

    def queue(
        self,
        name: str,
        *,
        durable: bool = True,
        auto_delete: bool = False,
        exclusive: bool = False,
        quorum: bool | None = None,
        dead_letter: bool = False,
        retry: RetryPolicy | None = None,
        single_active: bool = False,
        args: Mapping[str, Any] | None = None,
    ) -> Topology:
        """With a queue: a quorum queue, unless it is transient, exclusive or auto-delete.

        :param quorum: None for that default; False for a classic queue; True insists
        :param dead_letter: the queue dead-letters to ``{name}.dlq``, which is declared with its
            exchange, binding and the parking queue
        :param retry: declares the rungs that hold this policy's long waits
        :param single_active: one consumer at a time gets messages
        :param args: further arguments
        :raises ConfigurationError: arguments that contradict each other
        """
        what = f"queue {name!r}"
        checked_flags(what, dead_letter=dead_letter, single_active=single_active)
        checked_flags(what, durable=durable, auto_delete=auto_delete, exclusive=exclusive)
        if quorum is not None:
            checked_flags(what, quorum=quorum)
        given = mapping_by_name(args or {}, what)
        kept = durable and not auto_delete and not exclusive
        arguments = _queue_type(name, quorum, kept, given)
        if dead_letter:
            arguments["x-dead-letter-exchange"] = DEAD_LETTER_EXCHANGE
            arguments["x-dead-letter-routing-key"] = dead_letter_queue(name)
        if single_active:
            arguments["x-single-active-consumer"] = True
        arguments = _joined(name, arguments, given)
        _refuse_unfit(name, arguments)
        declared = QueueDeclaration(name, durable, auto_delete, exclusive, arguments)
        result = self + Topology(queues=(declared,))
        if dead_letter:
            result += _set_aside(name)
        return result if retry is None else result + _rungs(name, retry)

    def stream(self, name: str, retention: StreamRetention | None = None) -> Topology:
        """With a stream: a log that keeps what was read.

        :param retention: how much it keeps; everything by default
        """
        limits = {} if retention is None else retention.arguments()
        declared = QueueDeclaration(name, arguments={"x-queue-type": "stream", **limits})
        return self + Topology(queues=(declared,))

    def binding(
        self,
        queue: str,
        exchange: str,
        routing_key: str = "",
        args: Mapping[str, Any] | None = None,
        *,
        to_exchange: bool = False,
    ) -> Topology:
        """With a binding of a queue to an exchange.

        :param args: what a headers exchange matches, such as ``{"x-match": "all", ...}``
        :param to_exchange: ``queue`` names an exchange, which gets the messages instead
        """
        declared = BindingDeclaration(queue, exchange, routing_key, args or {}, to_exchange)
        return self + Topology(bindings=(declared,))

    def plan(self) -> tuple[Declaration, ...]:
        """What would be declared, in order: exchanges, then queues, then bindings."""
        return (*self.exchanges, *self.queues, *self.bindings)

    def __add__(self, other: Topology) -> Topology:
        """Both together. Raises :class:`ConfigurationError` where they do not agree."""
        if not isinstance(other, Topology):
            return NotImplemented
        return Topology(
            self.exchanges + other.exchanges,
            self.queues + other.queues,
            self.bindings + other.bindings,
        )


# ------------------------------------------------------------ the contract's objects


def failure_topology(queue: str, retry: RetryPolicy) -> Topology:
    """What a consumer declares at its start: everything that stands around its queue.

    The source queue itself is not among it, and is bound to the retry exchange only when the
    policy has waits that the broker holds.

    :raises ConfigurationError: a name grows over 255 bytes, or a wait over 49 days
    """
    return _set_aside(queue) + _rungs(queue, retry)


def rung_topology(queue: str, delay: Duration) -> Topology:
    """One rung of a queue, with the exchange and binding that bring its messages back.

    :raises ConfigurationError: as :func:`failure_topology`
    """
    rung = _rung(queue, delay)
    back = BindingDeclaration(queue, RETRY_EXCHANGE, queue)
    return Topology((_direct(RETRY_EXCHANGE),), (rung,), (back,))


def schedule_topology() -> Topology:
    """The rungs in which scheduled messages wait, and the queue where they are looked at."""
    queues = [_schedule_rung(seconds) for seconds in _SCHEDULE_RUNGS]
    queues.append(QueueDeclaration(SCHEDULE_CONTROL_QUEUE))
    bindings = [BindingDeclaration(each.name, SCHEDULE_EXCHANGE, each.name) for each in queues]
    return Topology((_direct(SCHEDULE_EXCHANGE),), tuple(queues), tuple(bindings))


def _set_aside(queue: str) -> Topology:
    ends = (dead_letter_queue(queue), parked_queue(queue))
    return Topology(
        (_direct(DEAD_LETTER_EXCHANGE),),
        tuple(QueueDeclaration(end) for end in ends),
        tuple(BindingDeclaration(end, DEAD_LETTER_EXCHANGE, end) for end in ends),
    )


def _rungs(queue: str, retry: RetryPolicy) -> Topology:
    # The exchange stands even without rungs: a wait that spills over makes its rung on need.
    result = Topology((_direct(RETRY_EXCHANGE),))
    for delay in retry.broker_rungs():
        result += rung_topology(queue, delay)
    return result


def _rung(queue: str, delay: Duration) -> QueueDeclaration:
    return QueueDeclaration(
        retry_queue(queue, delay),
        arguments={
            "x-message-ttl": rung_ttl(delay),
            "x-dead-letter-exchange": RETRY_EXCHANGE,
            "x-dead-letter-routing-key": queue,
        },
    )


def _schedule_rung(seconds: int) -> QueueDeclaration:
    return QueueDeclaration(
        f"{SCHEDULE_EXCHANGE}.{rung_label(seconds)}",
        arguments={
            "x-message-ttl": seconds * 1000,
            "x-dead-letter-exchange": SCHEDULE_EXCHANGE,
            "x-dead-letter-routing-key": SCHEDULE_CONTROL_QUEUE,
        },
    )


def _direct(name: str) -> ExchangeDeclaration:
    return ExchangeDeclaration(name, "direct")


# ------------------------------------------------------------ agreement


def _queue_type(
    name: str, quorum: bool | None, kept: bool, args: Mapping[str, Any]
) -> dict[str, Any]:
    """The ``x-queue-type`` argument. Classic is spelled by leaving it out."""
    asked = args.get("x-queue-type")
    if asked is not None and quorum is None:
        quorum = asked == "quorum"
    if quorum and not kept:
        raise ConfigurationError(
            f"acemq: the queue {name!r} cannot be a quorum queue and transient, exclusive or "
            "auto-delete: leave quorum out, or make it durable and shared"
        )
    if quorum is False or not kept:
        if asked == "quorum" or (asked == "stream" and not kept):
            raise _contradiction(name, "x-queue-type", "classic", asked)
        return {}
    return {"x-queue-type": "quorum"}


#: what a queue of that kind cannot have, on any RabbitMQ; and what can
_UNFIT: Final[Mapping[str, Mapping[str, str]]] = {
    "quorum": {"x-max-priority": "a classic queue (quorum=False)"},
    "stream": {
        "x-dead-letter-exchange": "a quorum or classic queue",
        "x-dead-letter-routing-key": "a quorum or classic queue",
        "x-max-priority": "a classic queue (quorum=False)",
        "x-message-ttl": "a quorum or classic queue; streams have StreamRetention(max_age=...)",
        "x-single-active-consumer": "a quorum or classic queue",
    },
}


def _refuse_unfit(name: str, arguments: Mapping[str, Any]) -> None:
    kind = arguments.get("x-queue-type")
    for key, other in _UNFIT.get(kind, {}).items() if isinstance(kind, str) else ():
        if key in arguments:
            raise ConfigurationError(
                f"acemq: the queue {name!r} is a {kind} queue and cannot have {key}: take it out, "
                f"or declare {other}"
            )


def _joined(name: str, own: dict[str, Any], args: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in args.items():
        if key in own and own[key] != value:
            raise _contradiction(name, key, own[key], value)
    return {**own, **args}


def _contradiction(name: str, key: str, own: object, given: object) -> ConfigurationError:
    return ConfigurationError(
        f"acemq: the queue {name!r} is asked for with {key} {own!r} and {given!r}: take it out of "
        "args, or leave the keyword that says otherwise out"
    )


def _agreed(declarations: tuple[_Named, ...]) -> tuple[_Named, ...]:
    known: dict[str, _Named] = {}
    for each in declarations:
        before = known.setdefault(each.name, each)
        if before != each:
            raise ConfigurationError(
                f"acemq: one name is declared in two ways: {before}; and {each}. Make them alike, "
                "or give one another name"
            )
    return tuple(known.values())
