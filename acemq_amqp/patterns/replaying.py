"""Replay: dead letters and parked messages go back to where they came from.

Each message is published whole to its place and confirmed there before the original is
acknowledged; whatever fails, it is in one place or the other. A run goes through what was in the
queue when it began, so that what fails again and comes back is not taken a second time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from acemq_amqp.core.checks import flag, whole
from acemq_amqp.core.connection import Connection
from acemq_amqp.core.hops import Onward
from acemq_amqp.core.ports import Call
from acemq_amqp.core.publishing import PublishResult
from acemq_amqp.core.pulling import Delivery
from acemq_amqp.durations import Duration, seconds
from acemq_amqp.errors import BatchError, ConfigurationError, NotFound, PublishUnknown
from acemq_amqp.message import Message
from acemq_amqp.naming import checked_name
from acemq_amqp.patterns.browsing import refuse_lookers
from acemq_amqp.patterns.connections import checked_connection
from acemq_amqp.patterns.replay_plan import ReplayPlan, ReplayResult, ReplayStopped, plan_of

#: Messages that are under way at once.
_BATCH: Final = 100


async def replay(
    connection: Connection,
    queue: str,
    *,
    exchange: str = "",
    routing_key: str | None = None,
    limit: int = 0,
    deadline: Duration | None = None,
    rate: float | None = None,
    only: Callable[[Message], Any] | None = None,
    restart: bool = True,
    dry_run: bool = False,
) -> ReplayResult:
    """Moves dead letters or parked messages back to the queue they came from; none is lost.

    Each is confirmed in its place before the original is acknowledged, and keeps its body, id,
    properties and headers; where a connection is lost in between it can be in both. A queue that
    ends in ``.dlq`` or ``.parked`` goes back to the one it is named after, unless a place is given.

    :param exchange: another place; ``""`` addresses the queue that ``routing_key`` names
    :param routing_key: the key there; to an exchange, the key each first arrived with by default
    :param limit: messages at most; 0: all that were there when it began
    :param deadline: seconds after which it begins no further one
    :param rate: messages a second at most
    :param only: takes a ``Message``, whose payload is the body as it is, and says whether it goes.
        The others are held until the end, and are then in their places again
    :param restart: attempt 1 again and no error; False keeps both
    :param dry_run: count what would be moved and change nothing. Without ``only`` it does not even
        look at the messages
    :raises ConfigurationError: no place can be told; or ``only`` for a queue where a look costs
        something, as for :func:`browse`
    :raises NotFound: the queue, or the one to replay to, is not there
    :raises ReplayStopped: something failed on the way; ``.result`` has what was done
    """
    connection = checked_connection(connection)
    plan = plan_of(
        checked_name(queue, "queue"), exchange, routing_key, restart=flag(restart, "restart")
    )
    dry_run = flag(dry_run, "dry_run")
    pace = _pace(limit, deadline, rate)
    wanted = None if only is None else connection.work.bind(only)
    count = await connection.message_count(queue)
    target = plan.target_queue
    if target is not None and not await connection.queue_exists(target):
        raise NotFound(
            f"acemq: {queue!r} cannot be replayed: there is no queue {target!r}; declare it, or "
            "name another place",
            code=404,
        )
    if wanted is not None:
        await refuse_lookers(connection, queue)
    elif dry_run:
        return _counted(queue, count, pace.limit)
    return await _Replaying(connection, plan, pace, wanted, dry_run).run(count)


@dataclass(frozen=True, slots=True)
class _Pace:
    limit: float
    seconds: float
    rate: float


def _pace(limit: Any, deadline: Any, rate: Any) -> _Pace:
    most = whole(limit, "limit", least=0) or math.inf
    until = math.inf if deadline is None else seconds(deadline, "deadline")
    if rate is None:
        return _Pace(most, until, math.inf)
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf:
        raise ConfigurationError(f"acemq: rate is messages a second, over 0, got {rate!r}")
    return _Pace(most, until, float(rate))


def _counted(queue: str, count: int, limit: float) -> ReplayResult:
    stopped: Literal["", "limit"] = "limit" if count > limit else ""
    return ReplayResult(queue, int(min(count, limit)), stopped=stopped, dry_run=True)


class _Replaying:
    """One run."""

    def __init__(
        self,
        connection: Connection,
        plan: ReplayPlan,
        pace: _Pace,
        wanted: Call | None,
        dry_run: bool,
    ) -> None:
        self._connection = connection
        self._clock = connection.work.clock
        self._publisher = connection.publisher(plan.exchange, plan.routing_key or "")
        self._plan = plan
        self._pace = pace
        self._wanted = wanted
        self._dry_run = dry_run
        self._held: list[Delivery] = []
        self._begun = self._clock.monotonic()
        self._replayed = self._passed_over = self._perhaps_twice = 0
        self._stopped: Literal["", "limit", "deadline"] = ""

    async def run(self, count: int) -> ReplayResult:
        """Goes through so many messages."""
        try:
            await self._go(count)
        except Exception as failure:
            raise ReplayStopped(
                f"acemq: the replay of {self._plan.queue!r} stopped after {self._replayed} "
                f"messages, the others are still there: {failure}",
                self._result(),
            ) from failure
        finally:
            for delivery in self._held:
                await delivery.requeue()
        return self._result()

    def _result(self) -> ReplayResult:
        return ReplayResult(
            self._plan.queue,
            self._replayed,
            self._passed_over,
            self._perhaps_twice,
            self._stopped,
            self._dry_run,
        )

    async def _go(self, left: int) -> None:
        while left and not self._stopped:
            batch: list[Delivery] = []
            while left and len(batch) < self._room() and await self._may_begin(len(batch)):
                delivery = await self._connection.pull(self._plan.queue)
                left = left - 1 if delivery is not None else 0
                if delivery is not None and await self._is_wanted(delivery):
                    batch.append(delivery)
            if self._dry_run:
                self._replayed += len(batch)
            elif batch:
                await self._connection.work.finish(self._move(batch))

    def _room(self) -> int:
        return _BATCH if self._pace.rate == math.inf else 1

    async def _may_begin(self, begun: int) -> bool:
        """Waits for the next one's turn; False where there is none any more."""
        done = self._replayed + begun
        if done >= self._pace.limit:
            self._stopped = "limit"
            return False
        turn = self._begun + (done / self._pace.rate if not self._dry_run else 0)
        if max(turn, self._clock.monotonic()) >= self._begun + self._pace.seconds:
            self._stopped = "deadline"
            return False
        if turn > self._clock.monotonic():
            await self._clock.sleep(turn - self._clock.monotonic())
        return True

    async def _is_wanted(self, delivery: Delivery) -> bool:
        self._held.append(delivery)
        if self._wanted is None or await self._wanted(delivery.message()):
            return True
        self._passed_over += 1
        return False

    async def _move(self, batch: list[Delivery]) -> None:
        try:
            outcomes: list[Any] = list(
                await self._publisher.forward([self._onward(each) for each in batch])
            )
        except BatchError as failure:
            outcomes = failure.outcomes
        for delivery, outcome in zip(batch, outcomes, strict=True):
            await self._settle(delivery, outcome)
        failures = [each for each in outcomes if isinstance(each, Exception)]
        if failures:
            raise failures[0]

    async def _settle(self, delivery: Delivery, outcome: Any) -> None:
        if isinstance(outcome, PublishResult):
            self._held.remove(delivery)
            self._replayed += 1
            taken_off = await delivery.ack()
            self._perhaps_twice += not taken_off or outcome.repeated > 0
        else:
            self._perhaps_twice += isinstance(outcome, PublishUnknown)

    def _onward(self, delivery: Delivery) -> Onward:
        message = delivery.message()
        put, drop = self._plan.changes(message.all_headers, self._clock.now())
        key = self._plan.key_of(message)
        return Onward(delivery.arrival, self._plan.exchange, key, put, drop)
