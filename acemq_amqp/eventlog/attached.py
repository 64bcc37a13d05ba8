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
from acemq_amqp.eventlog.records import LogRecord, record_of
from acemq_amqp.eventlog.settings import OnGap
from acemq_amqp.eventlog.store import Position
from acemq_amqp.offsets import Offset

log = logging.getLogger("acemq_amqp")

#: Each segment of a stream begins with a note of the broker's own that takes one offset. A segment
#: that is gone had a message as well, so more offsets than that are missing where messages are.
_BROKERS_OWN = 1


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
    :ivar blind: where it began is past messages of other lanes that the group may not have read
    """

    def __init__(
        self,
        gaps: Gaps,
        group: str,
        reader: StreamReader,
        upto: int,
        last: str,
        tail: int,
        *,
        blind: bool = False,
    ) -> None:
        self._gaps = gaps
        self._group = group
        self._reader = reader
        self.upto = upto
        self.last = last
        self.tail = tail
        self.blind = blind

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
            self._look_for_gaps(records)
        self.upto, self.last = records[-1].offset + 1, records[-1].id
        return records

    def _look_for_gaps(self, records: list[LogRecord]) -> None:
        upto = self.upto
        for record in records:
            self._gaps.between(self._group, record.stream, upto, record.offset)
            upto = record.offset + 1

    @property
    def caught_up(self) -> bool:
        """Whether all has been taken that was there when it was attached."""
        return self.upto > self.tail

    async def close(self) -> None:
        """Ends it."""
        await self._reader.close()


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
    reader = await source.connection.read(stream, Offset(upto), prefetch=prefetch)
    last = position.anchor if upto == position.next else ""
    blind = upto > max(position.next, ends.oldest)
    return Attached(source.gaps, group, reader, upto, last, ends.tail, blind=blind)


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
    if ends.tail < before:
        raise replaced(fence.group, fence.stream, position.next)
    if position.anchor and before >= max(ends.oldest, 0):
        at_tail = before == ends.tail
        found = ends.tail_id if at_tail else await log.id_at(fence.stream, before)
        if found and found != position.anchor:
            raise replaced(fence.group, fence.stream, position.next)
