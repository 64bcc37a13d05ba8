"""Reading a stream: messages by the batch, for as long as one attachment lasts.

A stream keeps what was read, so a reader settles nothing and has no handler. Acknowledging a
delivery only gives the broker credit for another; that happens when it is taken, so at most
``prefetch`` wait in memory however slow their reader is. Nothing is ever given back, which a
stream would end the connection for. A reader does not come back by itself: where to go on is
known only to who handled what it gave.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from acemq_amqp import headers as names
from acemq_amqp.core import checks
from acemq_amqp.core.ports import (
    Arrival,
    Deadline,
    Link,
    Subscription,
    SubscriptionEvents,
    SubscriptionRequest,
    Work,
)
from acemq_amqp.core.supervisor import Supervisor
from acemq_amqp.errors import BrokerError, BrokerTimeout, ConfigurationError, ConsumerEnded
from acemq_amqp.headers import read_text
from acemq_amqp.naming import checked_name
from acemq_amqp.offsets import First, Last, Start, checked_start

_OFFSET = "x-stream-offset"
#: from which on brokers filter
_FILTERING = (3, 13)
_LONGEST_LANE = 255
#: A whole chunk must fit in it.
_WHOLE_CHUNK = 65_535
#: Seconds without a delivery after which a stream is asked whether it is empty. Its count alone
#: does not tell: it lags behind, and a stream of one message counts none.
_PATIENCE = 1.0
#: A channel gets so long to close; seconds.
_CLOSING = 5.0


@dataclass(frozen=True, slots=True)
class StreamEnds:
    """The two ends of a stream: what can be read now.

    :ivar oldest: offset of the oldest message; 0 where there is none
    :ivar tail: offset of the newest; -1 where there is none
    :ivar tail_id: id of the newest; ``""`` where it has none
    """

    oldest: int
    tail: int
    tail_id: str


def offset_of(arrival: Arrival) -> int:
    """The offset that a delivery of a stream came with."""
    offset: int = arrival.properties.headers.values()[_OFFSET]
    return offset


def id_of(arrival: Arrival) -> str:
    """The id that a message came with; ``""`` where it has none."""
    properties = arrival.properties
    return read_text(properties.headers.get(names.ID)) or properties.message_id or ""


class StreamReader:
    """Messages of one stream in their order, oldest first. Made by ``Connection.read``.

    :ivar stream: what it reads
    """

    def __init__(self, stream: str, work: Work, forget: Callable[[StreamReader], None]) -> None:
        self.stream = stream
        self._work = work
        self._forget = forget
        self._waiting: deque[Arrival] = deque()
        self._woken = work.event()
        self._error: BrokerError | None = None
        self._subscription: Subscription | None = None

    def __repr__(self) -> str:
        state = "reading" if self._error is None else "ended"
        return f"StreamReader({self.stream!r}, {state}, {len(self._waiting)} waiting)"

    def __len__(self) -> int:
        """How many have come and were not taken."""
        return len(self._waiting)

    async def take(self, most: int, deadline: Deadline = None) -> list[Arrival]:
        """Waits for a message, and gives it with those behind it that have come, oldest first.

        :param most: so many at most
        :param deadline: a moment of the clock's ``monotonic``; an empty list then
        :raises BrokerError: what ended it, once all that came before was given
        """
        waiting = self._waiting
        if not waiting and not await self.wait(deadline):
            return []
        taken = [waiting.popleft() for _ in range(min(most, len(waiting)))]
        for arrival in taken:
            arrival.settling.ack(arrival.tag)
        return taken

    async def wait(self, deadline: Deadline = None) -> bool:
        """Waits for a message, and leaves it there; False at the deadline.

        :raises BrokerError: what ended it, where nothing waits
        """
        waiting = self._waiting
        while not waiting:
            self._woken.clear()
            error = self._error  # looked at before what waits: what came before it is there then
            if waiting:
                break
            if error is not None:
                raise error
            if not await self._woken.wait(deadline) and not waiting and self._error is None:
                return False
        return True

    async def stop(self, deadline: Deadline) -> list[Arrival]:
        """Has no more sent, and gives all that had been, without credit for others.

        :raises BrokerError: what ended it before
        """
        if self._error is not None or self._subscription is None:
            raise self._error or _closed(self.stream)
        await self._subscription.cancel(deadline)
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    async def close(self) -> None:
        """Lets go of the stream, and of what was not taken. Never raises, and may be repeated."""
        self.end(_closed(self.stream))
        self._waiting.clear()
        subscription, self._subscription = self._subscription, None
        self._forget(self)
        if subscription is not None and subscription.live:
            await self._work.finish(self._closed(subscription))

    async def _closed(self, subscription: Subscription) -> None:
        with suppress(BrokerError):  # it went with its connection
            await subscription.close(self._work.clock.monotonic() + _CLOSING)

    # ------------------------------------------------------------ between the core's parts

    async def attach(self, link: Link, request: SubscriptionRequest, deadline: Deadline) -> None:
        """Begins to read. Once."""
        events = SubscriptionEvents(arrived=self._arrived, ended=self.end)
        self._subscription = await link.subscribe(request, events, deadline)

    def _arrived(self, arrival: Arrival) -> None:
        self._waiting.append(arrival)
        if not self._woken.is_set():
            self._woken.set()

    def end(self, why: BrokerError) -> None:
        """Nothing more will come. Any thread; only enqueues."""
        if self._error is None:
            self._error = why
        self._woken.set()


class Reading:
    """The readers of one connection, and what can be found out by reading.

    :param timeout: seconds for an attach, and for a look at the ends
    """

    def __init__(self, work: Work, control: Supervisor, timeout: float) -> None:
        self._work = work
        self._control = control
        self._timeout = timeout
        self._lock = work.lock()
        self._readers: set[StreamReader] = set()

    async def read(
        self, stream: str, start: Start, prefetch: int, lanes: Sequence[str] | None
    ) -> StreamReader:
        """As ``Connection.read``."""
        checked_name(stream, "stream")
        checks.whole(prefetch, "prefetch", most=_WHOLE_CHUNK)
        arguments: dict[str, object] = {_OFFSET: checked_start(start).argument()}
        wanted = None if lanes is None else _checked_lanes(lanes)
        deadline = self._deadline()
        link = await self._control.connected(deadline)
        if wanted is not None and link.broker.version >= _FILTERING:
            arguments["x-stream-filter"] = wanted
            arguments["x-stream-match-unfiltered"] = True
        return await self._attached(
            link, SubscriptionRequest(stream, "", prefetch, arguments), deadline
        )

    async def ends(self, stream: str) -> StreamEnds:
        """As ``Connection.ends``."""
        checked_name(stream, "stream")
        deadline = self._deadline()
        link = await self._control.connected(deadline)
        oldest = await self._edge(link, stream, First, 1, deadline)
        chunk = await self._edge(link, stream, Last, _WHOLE_CHUNK, deadline) if oldest else []
        if not chunk:
            return StreamEnds(0, -1, "")
        return StreamEnds(offset_of(oldest[0]), offset_of(chunk[-1]), id_of(chunk[-1]))

    def lost(self, why: BrokerError) -> None:
        """The link is gone, and all readers with it. Any thread; only enqueues."""
        with self._lock:
            readers, self._readers = self._readers, set()
        for reader in readers:
            reader.end(why)

    async def _attached(
        self, link: Link, request: SubscriptionRequest, deadline: Deadline
    ) -> StreamReader:
        reader = StreamReader(request.queue, self._work, self._forget)
        with self._lock:  # before it is attached, so that no loss of the link escapes it
            self._readers.add(reader)
        try:
            await reader.attach(link, request, deadline)
        except BaseException:
            self._forget(reader)
            raise
        return reader

    def _forget(self, reader: StreamReader) -> None:
        with self._lock:
            self._readers.discard(reader)

    async def _edge(
        self, link: Link, stream: str, start: Start, prefetch: int, deadline: float
    ) -> list[Arrival]:
        """What an attach gives at once; nothing where the stream is empty.

        Once the first message has come the rest of its chunk is on its way before anything else,
        so all of it is here when the broker has agreed to send no more.
        """
        request = SubscriptionRequest(stream, "", prefetch, {_OFFSET: start.argument()})
        reader = await self._attached(link, request, deadline)
        try:
            while not await reader.wait(self._soon(deadline)):
                state = await link.look_up_queue(stream, deadline)
                if state is not None and not state.messages:
                    return []
                if self._work.clock.monotonic() >= deadline:
                    raise _silent(stream)
            return await reader.stop(deadline)
        finally:
            await reader.close()

    def _soon(self, deadline: float) -> float:
        return min(deadline, self._work.clock.monotonic() + _PATIENCE)

    def _deadline(self) -> float:
        return self._work.clock.monotonic() + self._timeout


def _checked_lanes(lanes: Sequence[str]) -> list[str]:
    if isinstance(lanes, str) or not lanes:
        raise ConfigurationError(f"acemq: lanes={lanes!r}: give a list of one lane or more")
    for lane in lanes:
        if not isinstance(lane, str) or not 0 < len(lane.encode()) <= _LONGEST_LANE:
            raise ConfigurationError(
                f"acemq: {lane!r:.80} is no lane: give text of 1 to {_LONGEST_LANE} bytes"
            )
    return list(lanes)


def _closed(stream: str) -> ConsumerEnded:
    return ConsumerEnded(f"acemq: this reader of stream {stream!r} is closed; read it again")


def _silent(stream: str) -> BrokerTimeout:
    return BrokerTimeout(
        f"acemq: stream {stream!r} has messages and the broker sent none in the time allowed; it "
        "is overloaded, or the stream's leader is being elected: try again"
    )
