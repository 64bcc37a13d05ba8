"""Taking a group's messages by hand, lane by lane.

A pop leases the lanes of what it gives, so that the next pop, here or elsewhere, gets others; a
lane is free again once all that was taken of it is acknowledged, or when its lease has run out.
What was given and not acknowledged is given again, its attempt counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from acemq_amqp.core.ports import Deadline
from acemq_amqp.envelope import fresh_id
from acemq_amqp.errors import BrokerTimeout, MessageError, StoreError
from acemq_amqp.eventlog.attached import Attached, attached
from acemq_amqp.eventlog.errors import LeaseLost
from acemq_amqp.eventlog.failing import Dead, dead_letter, killed_readers, verdict_of
from acemq_amqp.eventlog.messages import LogMessage
from acemq_amqp.eventlog.reading import Reading
from acemq_amqp.eventlog.records import LogRecord
from acemq_amqp.eventlog.shelf import Shelf, busy_lanes, standing
from acemq_amqp.eventlog.store import Fence, LaneLease, Position

#: While a pop waits, it looks so often whether a lane has become free, in seconds.
_GLANCE = 0.25
#: What is known to be there comes within so many seconds.
_PATIENCE = 10.0
PREFETCH = 500


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a pop asks for.

    :ivar most: messages in all, from ``lanes`` lanes at most
    :ivar only: the one lane that is read; None is all
    """

    most: int
    lanes: int
    only: str | None = None


@dataclass(slots=True)
class Taken:
    """Messages of one lane under one lease, until all are acknowledged.

    :ivar next: where the lane stands in the store
    :ivar left: offsets that are not acknowledged, in order
    """

    fence: Fence
    lane: str
    token: str
    next: int
    left: list[int]
    acked: set[int] = field(default_factory=set)

    def ack(self, offset: int) -> bool:
        """Notes an acknowledgement; whether the lane moves by it, as all before are too."""
        self.acked.add(offset)
        moved = False
        while self.left and self.left[0] in self.acked:
            self.next = self.left.pop(0) + 1
            moved = True
        return moved


class Popping:
    """A group's pops from one log in this process. One at a time: others wait for their turn."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._turn = reading.work.queue()
        self._turn.put(None)
        self._shelves: dict[str, tuple[int, Attached, Shelf]] = {}
        self._taken: dict[tuple[str, str], Taken] = {}
        self._first = 0

    @property
    def retry_limit(self) -> int:
        """How often a message that failed is tried again."""
        return self._reading.settings.retry_limit

    async def pop(self, wanted: Wanted, deadline: Deadline) -> list[LogMessage]:
        """What is due and in nobody's hands, oldest first in each lane.

        :param deadline: until when it waits for the first message
        :raises BrokerError: the broker is not there: nothing is known of what is due
        """
        await self._turn.get()
        try:
            while True:
                found = await self._round(wanted)
                if found or self._reading.now() >= (deadline or 0.0):
                    return found
        finally:
            self._turn.put(None)

    async def _round(self, wanted: Wanted) -> list[LogMessage]:
        """One look at each stream, waiting a moment in the last where nothing is there."""
        streams = self._streams(wanted)
        for place, stream in enumerate(streams, 1):
            wait = _GLANCE if place == len(streams) else 0.0
            try:
                found = await self._from(stream, wanted, wait)
            except BaseException:
                await self._forget(stream)
                raise
            if found:
                return found
        return []

    def _streams(self, wanted: Wanted) -> Sequence[str]:
        streams = self._reading.log.streams
        if wanted.only is not None:
            return (self._reading.log.stream_of(wanted.only),)
        self._first = (self._first + 1) % len(streams)
        return (*streams[self._first :], *streams[: self._first])

    async def _from(self, stream: str, wanted: Wanted, wait: float) -> list[LogMessage]:
        while True:
            position = await self._reading.placed(stream)
            if position.holder:
                return []
            shelf = await self._shelf(position, wait)
            busy = busy_lanes(position)
            offered = shelf.offer(wanted.most, wanted.lanes, busy, wanted.only)
            await self._advance(position, shelf)
            if not offered:
                return []
            messages = await self._lease(position, offered)
            if messages:
                return messages
            # others were quicker, or what was there is dead or was handled before: look again

    async def _shelf(self, position: Position, wait: float) -> Shelf:
        """What is in memory of a stream, with what has come since."""
        fence = position.fence
        kept = self._shelves.get(fence.stream)
        if kept is not None and (kept[0] != fence.epoch or _again(kept[2], position)):
            await self._forget(fence.stream)
            kept = None
        if kept is None:
            stands = await attached(self._reading.source, position, prefetch=PREFETCH)
            kept = fence.epoch, stands, Shelf(stands.upto, stands.last)
            self._shelves[fence.stream] = kept
        _, stands, shelf = kept
        await self._fill(stands, shelf, position, wait)
        return shelf

    async def _fill(self, stands: Attached, shelf: Shelf, position: Position, wait: float) -> None:
        """Reads on: what was there when it was attached is waited for, later messages a moment."""
        _tidy(shelf, position)
        limit = self._reading.now() + wait
        while shelf.room > 0:
            behind, now = not stands.caught_up, self._reading.now()
            records = await stands.take(shelf.room, now + _PATIENCE if behind else limit)
            if not records and behind:
                raise BrokerTimeout(
                    f"acemq: the broker gives nothing of stream {position.fence.stream!r}, where "
                    f"messages up to offset {stands.tail} are: it is overloaded; try again"
                )
            if not records:
                return
            shelf.put(records)
            _tidy(shelf, position)
            limit = now  # what has come as well, and no waiting for more

    async def _advance(self, position: Position, shelf: Shelf) -> None:
        next, anchor = shelf.watermark()
        if next > position.next:
            await self._reading.store.advance(position.fence, next, anchor)

    async def _forget(self, stream: str) -> None:
        kept = self._shelves.pop(stream, None)
        if kept is not None:
            await kept[1].close()

    # ------------------------------------------------------------ leasing

    async def _lease(
        self, position: Position, offered: dict[str, list[LogRecord]]
    ) -> list[LogMessage]:
        token = fresh_id()
        stands = standing(position, offered)
        leased = await self._reading.store.lease_lanes(position.fence, stands, token)
        messages: list[LogMessage] = []
        for lease in leased:
            records = offered[lease.lane]
            messages += await self._given(position.fence, lease, records, token)
        return messages

    async def _given(
        self, fence: Fence, lease: LaneLease, records: list[LogRecord], token: str
    ) -> list[LogMessage]:
        taken = Taken(fence, lease.lane, token, lease.next, [])
        fresh = await self._unseen(records)
        dead = killed_readers(lease.attempts, self._reading.settings.retry_limit)
        if lease.attempts > 1:  # one of them may have ended its reader: they come alone
            fresh = fresh[:1]
        if dead is not None and fresh:
            await self._bury(taken, fresh[0], dead.reason, lease.attempts - 1)
            return []
        messages: list[LogMessage] = []
        for record in fresh:
            try:
                payload = await self._reading.decoding.payload(record)
            except StoreError:
                if messages:
                    break
                await self._settle(taken, {}, freed=True)
                raise
            except MessageError as failure:
                if not messages:
                    verdict = verdict_of(failure, lease.attempts, limit=0, delay=0)
                    reason = verdict.reason if isinstance(verdict, Dead) else str(failure)
                    await self._bury(taken, record, reason, lease.attempts)
                    return []
                break
            messages.append(self._message(record, payload, lease.attempts, token))
        if not messages:  # windows, all handled before
            await self._settle(taken, {taken.lane: records[-1].offset + 1}, freed=True)
            return []
        taken.left = [message.offset for message in messages]
        self._taken[lease.lane, token] = taken
        return messages

    async def _unseen(self, records: list[LogRecord]) -> list[LogRecord]:
        ids = [record.window.id for record in records if record.window]
        if not ids:
            return records
        fresh = await self._reading.store.unseen(self._reading.group, ids)
        return [each for each in records if each.window is None or each.window.id in fresh]

    def _message(self, record: LogRecord, payload: object, attempt: int, token: str) -> LogMessage:
        reading = self._reading
        return LogMessage(
            record,
            payload,
            queue=reading.log.name,
            group=reading.group,
            attempt=attempt,
            token=token,
        )

    async def _bury(self, taken: Taken, record: LogRecord, reason: str, attempt: int) -> None:
        reading = self._reading
        letter = dead_letter(reading.log.name, reading.group, record, reason, attempt)
        await reading.store.settle_lanes(
            taken.fence,
            taken.token,
            {taken.lane: record.offset + 1},
            [taken.lane],
            records=(letter,),
        )

    # ------------------------------------------------------------ acknowledging

    async def ack(self, messages: Sequence[LogMessage]) -> None:
        """Moves their lanes past them, as far as all before them are acknowledged too.

        :raises LeaseLost: another reader has them, or the group was sought; the others are done
        """
        late: list[LogMessage] = []
        seen = [message.record.window.id for message in messages if message.record.window]
        touched: dict[tuple[str, str], Taken] = {}
        for message in messages:
            key = message.partition, message.token
            taken = self._taken.get(key)
            if taken is None:
                late.append(message)
            elif taken.ack(message.offset):
                touched[key] = taken
        for key, taken in touched.items():
            if not await self._settle(taken, {taken.lane: taken.next}, not taken.left, seen):
                late.append(messages[0])
            if not taken.left:
                self._taken.pop(key, None)
        if late:
            raise too_late(late[0])

    async def put_back(self, message: LogMessage) -> None:
        """Frees a message's lane where it stands: what is not acknowledged comes again.

        :raises LeaseLost: it is another's by now
        """
        if not await self._settle(self._holding(message), {}, freed=True):
            raise too_late(message)

    async def give_up(self, message: LogMessage, reason: str) -> None:
        """Makes a message a dead letter, where all before it in its lane are acknowledged.

        :raises LeaseLost: it is another's by now
        """
        taken = self._holding(message)
        if taken.left[:1] != [message.offset]:  # what is before it comes again, and it after that
            await self._settle(taken, {}, freed=True)
            return
        await self._bury(taken, message.record, reason, message.attempt)

    def _holding(self, message: LogMessage) -> Taken:
        taken = self._taken.pop((message.partition, message.token), None)
        if taken is None:
            raise too_late(message)
        return taken

    async def _settle(
        self, taken: Taken, moved: dict[str, int], freed: bool, seen: Sequence[str] = ()
    ) -> bool:
        lanes = [taken.lane] if freed else []
        settled = await self._reading.store.settle_lanes(
            taken.fence, taken.token, moved, lanes, seen=seen
        )
        return taken.lane in settled

    async def renew(self, message: LogMessage) -> None:
        """Begins the lease of a message's lane anew.

        :raises LeaseLost: it has run out
        """
        taken = self._taken.get((message.partition, message.token))
        kept: set[str] = set()
        if taken is not None:
            kept = await self._reading.store.renew_lanes(taken.fence, [taken.lane], taken.token)
        if not kept:
            raise too_late(message)

    async def close(self) -> None:
        """Gives back what was not acknowledged, and lets go of the streams."""
        for taken in self._taken.values():
            try:
                await self._settle(taken, {}, freed=True)
            except StoreError:
                break
        self._taken.clear()
        for stream in list(self._shelves):
            await self._forget(stream)


def _tidy(shelf: Shelf, position: Position) -> None:
    shelf.stand(position)
    shelf.make_room(busy_lanes(position))


def _again(shelf: Shelf, position: Position) -> bool:
    """Whether a lane that was dropped from memory is free, and must be read again."""
    return bool(shelf.dropped() - busy_lanes(position))


def too_late(message: LogMessage) -> LeaseLost:
    """The error of an acknowledgement that came too late."""
    return LeaseLost(
        f"acemq: {message!r} is no longer this reader's: its lease ran out, it was acknowledged "
        f"before, or group {message.group!r} was sought. Nothing was written; it may come again"
    )
