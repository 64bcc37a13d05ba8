"""A stream read on from a group's position, after it was checked to be the stream meant.

A position in a stream that was deleted and made again reads nothing for ever, and says nothing; so
the id of the message before it is compared. Nothing is skipped silently either: where retention
was faster than the group, that is an error, or counted.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from acemq_amqp.core.connection import Connection
from acemq_amqp.core.ports import Deadline
from acemq_amqp.core.reading import StreamEnds, StreamReader
from acemq_amqp.eventlog.errors import passed, replaced
from acemq_amqp.eventlog.log import Log
from acemq_amqp.eventlog.records import DEFAULT_LANE, LogRecord, record_of
from acemq_amqp.eventlog.settings import OnGap
from acemq_amqp.eventlog.shelf import TRAILING, Seam
from acemq_amqp.eventlog.store import Position
from acemq_amqp.offsets import Offset

log = logging.getLogger("acemq_amqp")

#: Each segment of a stream begins with a note of the broker's own that takes one offset. A segment
#: that is gone had a message as well, so more offsets than that are missing where messages are.
_BROKERS_OWN = 1

#: A lane alone is filtered by the broker where it has so much before it: farther than where a lane
#: is moved on to, so that it does not begin there anew.
FILTERED_FROM = 5 * TRAILING
#: How far is looked for what other lanes have: beyond a lane, in all, and at a time.
_BEYOND = 1000
_LOOKED_AT = 20_000
_GLANCE = 100


class Gaps:
    """What is done where retention removed what a group had not read.

    :ivar missed: offsets that were passed over so far
    """

    def __init__(self, on_gap: OnGap) -> None:
        self._on_gap = on_gap
        self.missed = 0

    def between(self, group: str, stream: str, first: int, until: int) -> None:
        """Notes that offsets from ``first`` on are not there, and ``until`` is.

        :raises RetentionPassed: they are not to be passed over
        """
        if until - first <= _BROKERS_OWN:
            return
        failure = passed(group, stream, first, until)
        if self._on_gap == "raise":
            raise failure
        log.warning("%s; they are skipped", failure)
        self.missed += until - first


@dataclass(frozen=True, slots=True)
class Source:
    """What is read: a log, on a connection, and what is done about gaps."""

    connection: Connection
    log: Log
    gaps: Gaps


class Attached:
    """One attachment. It ends with its connection, and is made anew by whoever reads.

    :ivar upto: the offset after the last message that was taken
    :ivar last: the id of that message; ``""`` where it is not known
    :ivar tail: offset of the last message there was when it was attached
    :ivar others: where what other lanes have due, and this may not show, begins at the earliest
    :ivar patience: what is known to be there comes within so many seconds
    """

    patience = 10.0

    def __init__(
        self,
        source: Source,
        group: str,
        reader: StreamReader,
        begins: Seam,
        tail: int,
        others: Seam | None = None,
    ) -> None:
        self._source = source
        self._group = group
        self._reader = reader
        self.upto, self.last = begins
        self.tail = tail
        self.others = others

    async def wait(self, deadline: Deadline) -> bool:
        """Waits until something is there to be taken; False at the deadline.

        :raises BrokerError: the attachment has ended
        """
        return await self._reader.wait(deadline)

    async def take(self, most: int, deadline: Deadline) -> list[LogRecord]:
        """What comes next, oldest first; empty at the deadline.

        :raises RetentionPassed: messages are gone that were not read
        :raises BrokerError: the attachment has ended
        """
        stream = self._reader.stream
        records = [record_of(stream, each) for each in await self._reader.take(most, deadline)]
        if records and records[0].offset < self.upto:
            records = [record for record in records if record.offset >= self.upto]
        if not records:
            return records
        if records[-1].offset + 1 - self.upto != len(records):
            await self._look_for_gaps(records)
        self.upto, self.last = records[-1].offset + 1, records[-1].id
        return records

    async def _look_for_gaps(self, records: list[LogRecord]) -> None:
        upto = self.upto
        for record in records:
            self._source.gaps.between(self._group, record.stream, upto, record.offset)
            upto = record.offset + 1

    @property
    def caught_up(self) -> bool:
        """Whether all has been taken that was there when it was attached."""
        return self.upto > self.tail

    @property
    def over(self) -> bool:
        """Whether it has given all that it is for, and is to be made anew."""
        return False

    async def close(self) -> None:
        """Ends it."""
        await self._reader.close()


class Filtered(Attached):
    """An attachment to what one lane had until a mark; what others had the broker may leave out.

    Holes in the offsets are no gaps then: what retention may have taken is told by where the
    stream begins once they were passed.
    """

    patience = 60.0  # there may be much to leave out

    async def _look_for_gaps(self, records: list[LogRecord]) -> None:
        stream, upto = records[0].stream, self.upto
        oldest = (await self._source.log.ends(stream)).oldest
        for record in records:
            if upto < oldest:
                gone = min(oldest, record.offset)
                self._source.gaps.between(self._group, stream, upto, gone)
            upto = record.offset + 1

    @property
    def over(self) -> bool:
        return self.caught_up


async def attached(
    source: Source, position: Position, *, prefetch: int, lane: str | None = None
) -> Attached:
    """Attaches where a group's oldest due message can be.

    :param lane: only this lane is wanted; others may come too
    :raises LogReplaced: the stream is another one
    :raises RetentionPassed: messages are gone that were not read
    :raises NotFound: there is no such stream
    """
    group, stream = position.fence.group, position.fence.stream
    ends = await source.log.ends(stream)
    await refuse_replaced(source.log, position, ends)
    lowest = standing_of(position, lane)
    if lane is None:
        lowest = min((lowest, *(row.next for row in position.lanes)))
    if lowest < ends.oldest:
        source.gaps.between(group, stream, lowest, ends.oldest)
    upto = max(lowest, ends.oldest)
    others = None
    # foreign messages are of the default lane, and may be filtered by anything
    if lane is not None and lane != DEFAULT_LANE and ends.tail - upto >= FILTERED_FROM:
        others = await first_of_others(source, position, ends, lane)
        if others is not None:
            return await _filtered(source, position, upto, lane, prefetch, others)
    elif lane is not None and upto > position.next:
        others = await first_of_others(source, position, ends, lane, upto)
    reader = await source.connection.read(stream, Offset(upto), prefetch=prefetch)
    last = position.anchor if upto == position.next else ""
    return Attached(source, group, reader, Seam(upto, last), ends.tail, others)


async def _filtered(
    source: Source, position: Position, upto: int, lane: str, prefetch: int, others: Seam
) -> Attached:
    """Attaches to one lane, as far as there is something by now. The mark shows that it is all."""
    stream = position.fence.stream
    end = await source.log.mark(stream)
    reader = await source.connection.read(stream, Offset(upto), prefetch=prefetch, lanes=[lane])
    return Filtered(source, position.fence.group, reader, Seam(upto, ""), end - 1, others)


async def first_of_others(
    source: Source, position: Position, ends: StreamEnds, lane: str, until: int | None = None
) -> Seam | None:
    """Where what other lanes have due begins: there the group's watermark has to wait.

    It does not look very far: where it has found nothing by then, that is where it says.

    :param until: it looks no farther; None is a little beyond where the lane stands
    :returns: None where there is nothing before that, and more behind it
    """
    at = Seam(position.next, position.anchor)
    if at.offset < ends.oldest:
        at = Seam(ends.oldest, "")
    stop = until
    if stop is None:
        stop = min(max(at.offset, standing_of(position, lane)) + _BEYOND, ends.tail + 1)
    most = min(stop, at.offset + _LOOKED_AT)
    if at.offset < most:
        reader = await source.connection.read(
            position.fence.stream, Offset(at.offset), prefetch=_GLANCE
        )
        try:
            at, found = await _until_others(source, position, lane, reader, at, most)
        finally:
            await reader.close()
        if found:
            return at
    return at if at.offset < stop or (until is None and stop > ends.tail) else None


async def _until_others(
    source: Source, position: Position, lane: str, reader: StreamReader, at: Seam, most: int
) -> tuple[Seam, bool]:
    """Reads on to what is due of another lane; how far it came, and whether that is there."""
    rows = {row.lane: row.next for row in position.lanes}
    while at.offset < most:
        for arrival in await source.log.taken(reader, _GLANCE):
            record = record_of(reader.stream, arrival)
            if record.offset >= most:
                return Seam(max(at.offset, most), at.before), False
            due = record.offset >= rows.get(record.lane, position.next)
            if due and not record.mark and record.lane != lane:
                return at, True
            at = Seam(record.offset + 1, record.id)
    return at, False


def standing_of(position: Position, lane: str | None) -> int:
    """Where a group, or a lane of it, stands."""
    if lane is None:
        return position.next
    return next((row.next for row in position.lanes if row.lane == lane), position.next)


async def refuse_replaced(log: Log, position: Position, ends: StreamEnds) -> None:
    """Sees that a stream is the one that a group's position was taken in.

    :param ends: of the stream, read after the position
    :raises LogReplaced: it was deleted and made again
    """
    before = position.next - 1
    fence = position.fence
    if ends.tail + 1 < max((position.next, *(row.next for row in position.lanes))):
        raise replaced(fence.group, fence.stream, position.next)
    if position.anchor and before >= max(ends.oldest, 0):
        at_tail = before == ends.tail
        found = ends.tail_id if at_tail else await log.id_at(fence.stream, before)
        if found and found != position.anchor:
            raise replaced(fence.group, fence.stream, position.next)
