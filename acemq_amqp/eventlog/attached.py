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


@dataclass(frozen=True, slots=True)
class Source:
    """What is read: a log, on a connection, and what is done about gaps."""

    connection: Connection
    log: Log
    on_gap: OnGap


class Attached:
    """One attachment. It ends with its connection, and is made anew by whoever reads.

    :ivar upto: the offset after the last message that was taken
    :ivar last: the id of that message; ``""`` where it is not known
    :ivar tail: offset of the last message there was when it was attached
    :ivar missed: messages that retention removed before they were read
    """

    def __init__(self, source: Source, reader: StreamReader, upto: int, last: str) -> None:
        self._source = source
        self._reader = reader
        self.upto = upto
        self.last = last
        self.tail = -1
        self.missed = 0
        self.group = ""

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
        if records[0].offset > self.upto:
            self.missed += missed(self._source, self.group, stream, self.upto, records[0].offset)
        self.upto, self.last = records[-1].offset + 1, records[-1].id
        return records

    @property
    def caught_up(self) -> bool:
        """Whether all has been taken that was there when it was attached."""
        return self.upto > self.tail

    async def close(self) -> None:
        """Ends it."""
        await self._reader.close()


async def attached(source: Source, position: Position, *, prefetch: int) -> Attached:
    """Attaches where a group's oldest due message can be.

    :raises LogReplaced: the stream is another one
    :raises RetentionPassed: messages are gone that were not read
    :raises NotFound: there is no such stream
    """
    group, stream = position.fence.group, position.fence.stream
    ends = await source.log.ends(stream)
    await _check(source, position, ends)
    lowest = min((position.next, *(row.next for row in position.lanes)))
    gone = 0
    if lowest < ends.oldest:
        gone = missed(source, group, stream, lowest, ends.oldest)
    upto = max(lowest, ends.oldest)
    reader = await source.connection.read(stream, Offset(upto), prefetch=prefetch)
    last = position.anchor if upto == position.next else ""
    made = Attached(source, reader, upto, last)
    made.tail, made.missed, made.group = ends.tail, gone, group
    return made


async def _check(source: Source, position: Position, ends: StreamEnds) -> None:
    before = position.next - 1
    fence = position.fence
    if ends.tail < before:
        raise replaced(fence.group, fence.stream, position.next)
    if position.anchor and before >= max(ends.oldest, 0):
        at_tail = before == ends.tail
        found = ends.tail_id if at_tail else await source.log.id_at(fence.stream, before)
        if found and found != position.anchor:
            raise replaced(fence.group, fence.stream, position.next)


def missed(source: Source, group: str, stream: str, first: int, until: int) -> int:
    """How many messages are gone, where that is to be passed over.

    :raises RetentionPassed: where it is not
    """
    failure = passed(group, stream, first, until)
    if source.on_gap == "raise":
        raise failure
    log.warning("%s; they are skipped", failure)
    return until - first
