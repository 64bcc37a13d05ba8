"""What a replay decides: where messages go, and what is changed of them. Values and no broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from acemq_amqp import headers as names
from acemq_amqp.core.hops import first_place
from acemq_amqp.errors import AceMQError, ConfigurationError
from acemq_amqp.message import Message

_SET_ASIDE: Final = (".dlq", ".parked")


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What a replay came to.

    :ivar queue: what it took messages from
    :ivar replayed: messages that are where they were to go, confirmed; in a dry run those that
        would be
    :ivar passed_over: messages that ``only`` did not want; they are where they were
    :ivar perhaps_twice: messages that may be in both places, or twice in the new one, under their
        ids: a connection was lost between confirm and acknowledgement
    :ivar stopped: why it did not go through the whole queue; ``""`` where it did
    :ivar dry_run: whether nothing was to be changed
    """

    queue: str
    replayed: int = 0
    passed_over: int = 0
    perhaps_twice: int = 0
    stopped: Literal["", "limit", "deadline"] = ""
    dry_run: bool = False


class ReplayStopped(AceMQError):
    """A replay failed on its way. What was not confirmed elsewhere is back in its queue.

    :ivar result: what it had come to
    """

    def __init__(self, text: str, result: ReplayResult) -> None:
        super().__init__(text)
        self.result = result


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """Where messages of a queue are replayed to.

    :ivar routing_key: None: the key that each first arrived with
    :ivar restart: begin at attempt 1, without the error
    """

    queue: str
    exchange: str
    routing_key: str | None
    restart: bool = True

    @property
    def target_queue(self) -> str | None:
        """The queue that all of them go to, where it is addressed by name."""
        return None if self.exchange else self.routing_key

    def key_of(self, message: Message) -> str:
        """The routing key for a message."""
        if self.routing_key is not None:
            return self.routing_key
        came = message.all_headers
        if names.EXCHANGE not in came and names.ROUTING_KEY not in came:
            place = first_place(came)  # dead-lettered by the broker, which notes it elsewhere
            if place is not None:
                return place[1]
        return message.routing_key

    def changes(self, came: Mapping[str, Any], now: float) -> tuple[dict[str, Any], frozenset[str]]:
        """Headers to write into a message, and those to take off.

        :param now: seconds since the epoch
        """
        replayed = names.read_number(came.get(names.REPLAY_COUNT), 0, least=0)
        moment = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
        put: dict[str, Any] = {
            names.REPLAYED_FROM: self.queue,
            names.REPLAYED_AT: moment.replace("+00:00", "Z"),
            # a header is anybody's: what was counted to the end of the numbers stays there
            names.REPLAY_COUNT: min(replayed + 1, names.LARGEST),
        }
        if not self.restart:
            return put, frozenset()
        return put | {names.ATTEMPT: 1}, frozenset({names.ERROR, names.DELIVERIES})


def plan_of(queue: str, exchange: str, routing_key: str | None, *, restart: bool) -> ReplayPlan:
    """The plan for what a caller asks.

    :raises ConfigurationError: no place can be told, or it is the queue itself
    """
    for name, value in (("exchange", exchange), ("routing_key", routing_key or "")):
        if not isinstance(value, str):
            raise ConfigurationError(f"acemq: {name} of a replay is a {type(value).__name__}")
    if not exchange and routing_key is None:
        routing_key = source_of(queue)
    if not exchange and routing_key == queue:
        raise ConfigurationError(f"acemq: {queue!r} cannot be replayed to itself; name a place")
    return ReplayPlan(queue, exchange, routing_key, restart)


def source_of(queue: str) -> str:
    """The queue whose dead letters or parked messages a queue has.

    :raises ConfigurationError: its name does not tell
    """
    for ending in _SET_ASIDE:
        source = queue.removesuffix(ending)
        if source not in ("", queue):
            return source
    raise ConfigurationError(
        f"acemq: {queue!r} is no dead-letter queue ({{queue}}.dlq) nor a parking queue "
        "({queue}.parked) by its name: say with exchange= or routing_key= where its messages go"
    )
