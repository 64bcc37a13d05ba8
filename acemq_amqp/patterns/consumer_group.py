"""Consumers that read one queue together, started, scaled and closed as one thing.

Each has a channel, a prefetch and a number of its own; the broker shares the queue out
among them. Written over the flavour's ports: the blocking twin drives the same text.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from acemq_amqp.ack import Handler
from acemq_amqp.codec import Codec
from acemq_amqp.core.checks import prefetch_and_concurrency, whole
from acemq_amqp.core.connection import Connection
from acemq_amqp.core.consumer import Consumer
from acemq_amqp.core.ports import Work
from acemq_amqp.durations import Duration
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.patterns.connections import checked_connection
from acemq_amqp.patterns.consumer_counters import AnswerCounter, ConsumerCounters
from acemq_amqp.retry import RetryPolicy

log = logging.getLogger("acemq_amqp")


@dataclass(frozen=True, slots=True, eq=False)
class _Member:
    number: int
    tag: str
    consumer: Consumer
    counter: AnswerCounter

    def counters(self) -> ConsumerCounters:
        answers = self.counter.answers()
        return ConsumerCounters(self.number, self.tag, self.consumer.in_flight, answers)


@dataclass(frozen=True, slots=True)
class _Recipe:
    """How a group makes its consumers."""

    work: Work
    tag: str
    #: starts a consumer: its tag, its prefetch, what counts its handler
    start: Callable[[str, int | None, AnswerCounter], Awaitable[Consumer]]


class ConsumerGroup:
    """Consumers of one queue. Made by :meth:`start`; use it in an ``async with``, or close it::

        async with await ConsumerGroup.start(mq, "orders", 4, handle) as group:
            await group.scale_to(8)

    One that is built by hand, of consumers that run, can only be looked at and closed.
    """

    def __init__(self, queue: str, consumers: Iterable[Consumer]) -> None:
        self._queue = queue
        self._members = [
            _Member(number, "", consumer, AnswerCounter())
            for number, consumer in enumerate(consumers, 1)
        ]
        self._closed = False
        self._prefetch: int | None = None
        self._counted: dict[int, AnswerCounter] = {}
        self._recipe: _Recipe | None = None
        self._lock = threading.Lock()

    def _made_by(self, recipe: _Recipe, prefetch: int | None) -> None:
        self._recipe = recipe
        self._prefetch = prefetch
        #: who has the token in it may scale
        self._turn = recipe.work.queue()
        self._turn.put(None)

    @classmethod
    async def start(
        cls,
        connection: Connection,
        queue: str,
        size: int,
        handler: Handler,
        *,
        codec: Codec | None = None,
        retry: RetryPolicy | None = None,
        prefetch: int | None = None,
        concurrency: int = 1,
        tag: str = "",
        args: Any = None,
        declare: bool = True,
    ) -> ConsumerGroup:
        """Starts so many consumers over one queue: all of them, or none is left.

        :param size: how many consumers
        :param handler: what each does with a message, as in ``Connection.consume``
        :param codec: other than the connection's
        :param retry: a policy other than the connection's
        :param prefetch: unsettled deliveries of each at most; the connection's by default
        :param concurrency: handlers that run at once in each
        :param tag: what the broker calls them, each with its number: ``{tag}-1`` and so on;
            ``acemq-{queue}`` by default
        :param args: consumer arguments, such as ``x-priority``
        :param declare: declare the queues a failed message goes to
        :raises ConfigurationError: a size below 1, or parameters that do not go together
        :raises NotFound: there is no such queue
        """
        connection = checked_connection(connection)
        whole(size, "the size of a consumer group")

        async def start(name: str, places: int | None, counter: AnswerCounter) -> Consumer:
            return await connection.consume(
                queue,
                counter.counting(handler),
                codec=codec,
                retry=retry,
                prefetch=places,
                concurrency=concurrency,
                tag=name,
                args=args,
                declare=declare,
            )

        group = cls(queue, ())
        group._made_by(_Recipe(connection.work, tag or f"acemq-{queue}", start), prefetch)
        await group.scale_to(size)
        return group

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self.size} consumers"
        return f"ConsumerGroup({self._queue!r}, {state})"

    @property
    def queue(self) -> str:
        """What it reads."""
        return self._queue

    @property
    def size(self) -> int:
        """How many consumers it has."""
        return len(self._members)

    @property
    def prefetch(self) -> int | None:
        """Unsettled deliveries of each at most; None where it is the connection's."""
        return self._prefetch

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        """Its consumers, by number."""
        return tuple(member.consumer for member in self._members)

    @property
    def counters(self) -> tuple[ConsumerCounters, ...]:
        """What each of its consumers has done since the group was started, by number."""
        return tuple(member.counters() for member in self._members)

    # ------------------------------------------------------------ scaling

    async def scale_to(self, size: int) -> None:
        """Starts or closes consumers until there are so many; the highest numbers go first.

        One that is closed finishes the handlers that run. A number that is taken again goes on
        with its counters.

        :raises ConfigurationError: a size below 1, or the group is closed
        :raises BrokerError: one could not be started; those that this call started are closed
        """
        whole(size, "the size of a consumer group")
        recipe = self._scalable()
        await self._turn.get()
        try:
            members = self._members
            started = await self._started(recipe, range(len(members) + 1, size + 1), self._prefetch)
            await self._become([*members[:size], *started], started)
        finally:
            self._turn.put(None)
        # in nobody's way: their handlers may be scaling too
        await self._all_closed(members[size:])

    async def set_prefetch(self, prefetch: int) -> None:
        """Gives each another prefetch while messages go on: its successor starts, then it closes.

        :param prefetch: unsettled deliveries of each at most
        :raises ConfigurationError: out of range or below the concurrency, or the group is closed
        :raises BrokerError: a successor could not be started; the group goes on as it was
        """
        prefetch_and_concurrency(prefetch, 1)
        recipe = self._scalable()
        await self._turn.get()
        try:
            before = self._members
            started = await self._started(recipe, [each.number for each in before], prefetch)
            await self._become(started, started)
            self._prefetch = prefetch
        finally:
            self._turn.put(None)
        await self._all_closed(before)

    async def _started(
        self, recipe: _Recipe, numbers: Iterable[int], prefetch: int | None
    ) -> list[_Member]:
        """A consumer for each number, or none."""
        started: list[_Member] = []
        try:
            for number in numbers:
                self._scalable()
                counter = self._counted.setdefault(number, AnswerCounter())
                tag = f"{recipe.tag}-{number}"
                consumer = await recipe.start(tag, prefetch, counter)
                started.append(_Member(number, tag, consumer, counter))
        except BaseException:
            with suppress(Exception):  # the first failure is what the caller has to see
                await self._all_closed(started)
            raise
        return started

    async def _become(self, members: list[_Member], new: list[_Member]) -> None:
        """Takes the members on, unless the group was closed meanwhile: the new ones then end."""
        with self._lock:
            if not self._closed:
                self._members = members
                return
        await self._all_closed(new)
        self._scalable()

    def _scalable(self) -> _Recipe:
        if self._recipe is None or self._closed:
            why = "is closed" if self._closed else "was built by hand and cannot make consumers"
            raise ConfigurationError(
                f"acemq: the consumer group of {self._queue!r} {why}; use ConsumerGroup.start()"
            )
        return self._recipe

    # ------------------------------------------------------------ closing

    async def close(self, timeout: Duration | None = None) -> bool:
        """Closes every consumer, all at once, and waits for the handlers that run.

        All are closed even where one fails; the first failure is raised afterwards.

        :param timeout: seconds for each, as in ``Consumer.close``; its default where None
        :returns: whether everything ended in time. Called from inside one of its own handlers
            it only starts the stop, and returns False
        """
        leaving = self._left()
        if self._recipe is None:
            return _in_time(await self._closings(leaving, timeout))
        work = self._recipe.work
        if any(member.consumer.handling_here for member in leaving):
            work.spawn(self._closings(leaving, timeout), f"acemq-{self._queue}-group-closing")
            return False
        return _in_time(await work.finish(self._closings(leaving, timeout)))

    def _left(self) -> list[_Member]:
        with self._lock:
            self._closed = True
            leaving, self._members = self._members, []
            return leaving

    async def _all_closed(self, members: Sequence[_Member]) -> None:
        _in_time(await self._closings(members, None))

    async def _closings(
        self, members: Sequence[_Member], timeout: Duration | None
    ) -> list[_Closing]:
        closings = [_Closing(member) for member in members]
        tasks = []
        for closing in closings:
            if self._recipe is None or closing.member.consumer.handling_here:
                await closing.run(timeout)
            else:
                name = f"{closing.member.tag}-closing"
                tasks.append(self._recipe.work.spawn(closing.run(timeout), name))
        for task in tasks:
            await task.join()
        return closings

    async def __aenter__(self) -> ConsumerGroup:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class _Closing:
    """The end of one consumer, and how it went."""

    def __init__(self, member: _Member) -> None:
        self.member = member
        self.in_time = False
        self.failure: Exception | None = None

    async def run(self, timeout: Duration | None) -> None:
        close = self.member.consumer.close
        try:
            self.in_time = await (close() if timeout is None else close(timeout))
        except Exception as failure:
            log.warning("acemq: a consumer of %s could not be closed: %s", self.member, failure)
            self.failure = failure


def _in_time(closings: Sequence[_Closing]) -> bool:
    """Whether all ended in time; raises the first failure."""
    for closing in closings:
        if closing.failure is not None:
            raise closing.failure
    return all(closing.in_time for closing in closings)
