"""Taking a group's messages by hand, lane by lane.

A pop leases the lanes of what it gives, so that the next pop, here or elsewhere, gets others; a
lane is free again once all that was taken of it is acknowledged, or when its lease has run out.
What was given and not acknowledged is given again, its attempt counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from acemq_amqp.core.ports import Deadline
from acemq_amqp.envelope import fresh_id
from acemq_amqp.errors import MessageError, StoreError
from acemq_amqp.eventlog.errors import LeaseLost
from acemq_amqp.eventlog.failing import dead_letter, given_up, killed_readers, reason_of
from acemq_amqp.eventlog.messages import LogMessage
from acemq_amqp.eventlog.reading import Reading
from acemq_amqp.eventlog.records import LogRecord
from acemq_amqp.eventlog.shelf import Shelf, standing
from acemq_amqp.eventlog.store import Fence, LaneLease, Position
from acemq_amqp.eventlog.taken import Taken, windows_of
from acemq_amqp.eventlog.views import Views

#: While a pop waits, it looks so often whether a lane has become free, in seconds.
_GLANCE = 0.25


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a pop asks for.

    :ivar most: messages in all, from ``lanes`` lanes at most
    :ivar only: the one lane that is read; None is all
    """

    most: int
    lanes: int
    only: str | None = None


class Content(NamedTuple):
    """What a lane would give: messages before ``upto`` that can be read, and what ends them."""

    upto: int
    ready: list[tuple[LogRecord, Any]]
    unreadable: LogRecord | None = None
    reason: str = ""


class Popping:
    """A group's pops from one log in this process. Looks are taken one at a time.

    :ivar kept_out: whether the last look at one lane found it in another's hands, with more to do
    :ivar passed: messages that became dead letters instead of being given out
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._turn = reading.work.queue()
        self._turn.put(None)
        self._views = Views(reading)
        self._taken: dict[str, Taken] = {}
        #: offsets up to which a lane's messages come alone: one of them ended a reader
        self._alone: dict[str, int] = {}
        self._placed = False
        self._first = 0
        self.kept_out = False
        self.passed = 0

    @property
    def reading(self) -> Reading:
        """The group, and how it reads."""
        return self._reading

    async def pop(self, wanted: Wanted, deadline: Deadline) -> list[LogMessage]:
        """What is due and in nobody's hands, oldest first in each lane.

        :param deadline: until when it waits for the first message
        :raises BrokerError: the broker is not there: nothing is known of what is due
        """
        clock, until = self._reading.work.clock, deadline or 0.0
        while True:
            began = self._reading.now()
            await self._turn.get()
            try:
                found = await self._round(wanted, min(_GLANCE, max(0.0, until - began)))
            finally:
                self._turn.put(None)
            now = self._reading.now()
            if found or now >= until:
                return found
            await clock.sleep(max(0.0, min(until, began + _GLANCE) - now))

    async def _round(self, wanted: Wanted, wait: float) -> list[LogMessage]:
        """One look at each stream, waiting a moment in the last where nothing is there."""
        if not self._placed:
            await self._reading.placed_everywhere()
            self._placed = True
        self.kept_out = False
        streams = self._streams(wanted)
        for place, stream in enumerate(streams, 1):
            found = await self._from(stream, wanted, wait if place == len(streams) else 0.0)
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
                ends = await self._reading.log.ends(stream)
                self.kept_out = position.next <= ends.tail
                return []
            shelf = await self._views.look(position, wanted.only, wait)
            await self._advance(position, shelf)
            most = self._reading.settings.max_open_lanes
            offered = shelf.offer(wanted.most, wanted.lanes, position, wanted.only, most)
            if not offered:
                self.kept_out = wanted.only is not None and shelf.has(wanted.only)
                return []
            messages = await self._lease(position, offered)
            if messages:
                return messages
            # others were quicker, or what was there is dead or was handled before: look again

    async def _advance(self, position: Position, shelf: Shelf) -> None:
        """Moves the group past what is done, and lanes that would stay behind."""
        store, fence = self._reading.store, position.fence
        trailing = shelf.trailing(position)
        if trailing:
            token = fresh_id()
            leased = await store.lease_lanes(fence, trailing, token)
            lanes = [lease.lane for lease in leased]
            await store.settle_lanes(fence, token, dict.fromkeys(lanes, shelf.upto), lanes)
        next, anchor = shelf.watermark()
        if next > position.next or trailing:
            await store.advance(fence, next, anchor)

    # ------------------------------------------------------------ leasing

    async def _lease(
        self, position: Position, offered: Mapping[str, list[LogRecord]]
    ) -> list[LogMessage]:
        # read before they are leased: what cannot be read now counts no attempt
        contents = {lane: await self._content(records) for lane, records in offered.items()}
        token = fresh_id()
        stands = standing(position, offered)
        leased = await self._reading.store.lease_lanes(position.fence, stands, token)
        messages: list[LogMessage] = []
        for lease in leased:
            messages += await self._given(position.fence, lease, contents[lease.lane], token)
        return messages

    async def _content(self, offered: Sequence[LogRecord]) -> Content:
        """The payloads of a lane's messages, up to the first that cannot be read.

        :raises StoreError: the first needs something that cannot be reached now
        :raises MessageError: the first can never be read, and there are no dead letters
        """
        upto = offered[-1].offset + 1
        ready: list[tuple[LogRecord, Any]] = []
        for record in await self._reading.unseen(offered):
            try:
                ready.append((record, await self._reading.decoding.payload(record)))
            except StoreError:
                if ready:
                    break
                raise
            except MessageError as failure:
                if not self._reading.settings.dead_letters and not ready:
                    raise
                return Content(upto, ready, record, reason_of(failure))
        return Content(upto, ready)

    async def _given(
        self, fence: Fence, lease: LaneLease, content: Content, token: str
    ) -> list[LogMessage]:
        """What is given of a lane that was leased; what cannot be given is passed."""
        taken = Taken(fence, lease.lane, token, [])
        ready, unreadable = content.ready, content.unreadable
        if not ready and unreadable is not None:
            await self._bury(taken, unreadable, content.reason, lease.attempts)
            self.passed += 1
            return []
        if not ready:  # windows, all handled before
            await self._settle(taken, {lease.lane: content.upto}, (lease.lane,))
            return []
        settings = self._reading.settings
        dead = killed_readers(lease.attempts, settings.retry_limit)
        if dead is not None and settings.dead_letters:
            await self._bury(taken, ready[0][0], dead.reason, lease.attempts - 1)
            self.passed += 1
            return []
        if self._comes_alone(lease, content.upto):
            ready = ready[:1]
        taken.left = [self._message(*each, lease.attempts, token) for each in ready]
        self._taken[lease.lane] = taken
        return list(taken.left)

    def _comes_alone(self, lease: LaneLease, upto: int) -> bool:
        """Whether one of a lane's next messages may have ended its reader."""
        if lease.attempts > 1:
            self._alone[lease.lane] = max(self._alone.get(lease.lane, 0), upto)
        elif lease.next >= self._alone.get(lease.lane, 0):
            self._alone.pop(lease.lane, None)
        return lease.lane in self._alone

    def _message(self, record: LogRecord, payload: object, attempt: int, token: str) -> LogMessage:
        reading = self._reading
        return LogMessage(record, payload, reading.log.name, reading.group, attempt, token)

    async def _bury(self, taken: Taken, record: LogRecord, reason: str, attempt: int) -> bool:
        reading = self._reading
        given_up(record, reason)
        letter = dead_letter(reading.log.name, reading.group, record, reason, attempt)
        settled = await reading.store.settle_lanes(
            taken.fence,
            taken.token,
            {taken.lane: record.offset + 1},
            (taken.lane,),
            records=(letter,),
        )
        reading.wake()
        return taken.lane in settled

    # ------------------------------------------------------------ acknowledging

    def holds(self, message: LogMessage) -> bool:
        """Whether a message was given out here, and is not acknowledged."""
        taken = self._taken.get(message.partition)
        return taken is not None and taken.waits_for(message)

    async def ack(self, messages: Sequence[LogMessage], *, leave: bool = False) -> None:
        """Moves their lanes past them, as far as all before them are acknowledged too.

        :param leave: what is left of their lanes is given back, and was never begun
        :raises LeaseLost: another reader has them, or the group was sought; the others are done
        """
        late = [message for message in messages if not self.holds(message)]
        offsets: dict[str, set[int]] = {}
        for message in messages:
            if self.holds(message):
                offsets.setdefault(message.partition, set()).add(message.offset)
        by_lease: dict[tuple[Fence, str], list[Taken]] = {}
        for lane in offsets:
            taken = self._taken[lane]
            by_lease.setdefault((taken.fence, taken.token), []).append(taken)
        for some in by_lease.values():
            late += await self._past(some, offsets, leave)
        if late:
            raise too_late(late[0])

    async def _past(
        self, lanes: list[Taken], offsets: Mapping[str, set[int]], leave: bool
    ) -> list[LogMessage]:
        """Moves lanes of one lease, all at once; gives messages of those that are another's."""
        lost: list[LogMessage] = []
        while lanes:
            past = {taken.lane: taken.past(offsets[taken.lane]) for taken in lanes}
            moved = {lane: some[-1].offset + 1 for lane, some in past.items() if some}
            ended = {each.lane for each in lanes if leave or len(past[each.lane]) == len(each.left)}
            freed = [lane for lane in moved if lane in ended]
            seen = windows_of([each for some in past.values() for each in some])
            kept = await self._settle(lanes[0], moved, freed, seen) if moved else set()
            if kept == moved.keys():
                for taken in lanes:
                    taken.ack(offsets[taken.lane], len(past[taken.lane]))
                for lane in freed:
                    del self._taken[lane]
                break
            lost += [self._taken.pop(lane).left[0] for lane in moved if lane not in kept]
            lanes = [taken for taken in lanes if taken.lane in self._taken]
        return lost

    async def put_back(self, message: LogMessage) -> None:
        """Frees a message's lane where it stands: what is not acknowledged comes again.

        :raises LeaseLost: it is another's by now
        """
        taken = self._let_go(message)
        if not await self._settle(taken, {}, (taken.lane,)):
            raise too_late(message)

    async def give_up(self, message: LogMessage, reason: str) -> None:
        """Makes a message a dead letter, where all before it in its lane are acknowledged.

        :raises LeaseLost: it is another's by now
        """
        taken = self._let_go(message)
        if taken.left[0].offset != message.offset:  # what is before it comes again, and it then
            kept = bool(await self._settle(taken, {}, (taken.lane,)))
        else:
            kept = await self._bury(taken, message.record, reason, message.attempt)
        if not kept:
            raise too_late(message)

    def _let_go(self, message: LogMessage) -> Taken:
        if not self.holds(message):
            raise too_late(message)
        return self._taken.pop(message.partition)

    async def _settle(
        self,
        taken: Taken,
        moved: Mapping[str, int],
        freed: Sequence[str],
        seen: Sequence[str] = (),
    ) -> set[str]:
        return await self._reading.store.settle_lanes(
            taken.fence, taken.token, moved, freed, seen=seen
        )

    async def renew(self, message: LogMessage) -> None:
        """Begins the lease of a message's lane anew.

        :raises LeaseLost: it has run out
        """
        taken = self._taken.get(message.partition)
        if taken is None or taken.token != message.token:
            return  # it was acknowledged meanwhile
        store = self._reading.store
        if not await store.renew_lanes(taken.fence, [taken.lane], taken.token):
            raise too_late(message)

    async def close(self) -> None:
        """Gives back what was not acknowledged, and lets go of the streams."""
        for taken in list(self._taken.values()):
            try:
                await self._settle(taken, {}, (taken.lane,))
            except StoreError:
                break
        self._taken.clear()
        await self._views.close()


def too_late(message: LogMessage) -> LeaseLost:
    """The error of an acknowledgement that came too late."""
    return LeaseLost(
        f"acemq: {message!r} is no longer this reader's: its lease ran out, it was acknowledged "
        f"before, or group {message.group!r} was sought. Nothing was written; it may come again"
    )
