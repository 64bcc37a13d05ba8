"""Moving a group, and telling how far behind it is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from acemq_amqp.core.connection import Connection
from acemq_amqp.core.reading import StreamReader
from acemq_amqp.errors import BrokerTimeout, ConfigurationError
from acemq_amqp.eventlog.attached import refuse_replaced, standing_of
from acemq_amqp.eventlog.errors import LogReplaced
from acemq_amqp.eventlog.log import Log
from acemq_amqp.eventlog.modes import Back, Moment, Target
from acemq_amqp.eventlog.reading import within
from acemq_amqp.eventlog.records import LogRecord, record_of
from acemq_amqp.eventlog.store import LogStore, Position
from acemq_amqp.offsets import Offset

#: Messages that are counted one by one; beyond them offsets are.
COUNTED = 10_000
_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Moved:
    """What a seek did, or would do, in one stream.

    :ivar partition: the lane that was moved; None: all of them
    """

    stream: str
    partition: str | None
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group is behind.

    :ivar messages: messages that are pushed and not acknowledged
    :ivar exact: False where there are so many that offsets were counted, marks among them
    """

    messages: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group of a log.

    :ivar stands: its offset in each stream where it is
    :ivar readers: streams that a reader of it holds now
    :ivar lag: how far behind it is; None where the log was deleted and made again since it stood
        there, so that nobody can say
    """

    group: str
    stands: Mapping[str, int]
    readers: tuple[str, ...]
    lag: Lag | None


@dataclass(frozen=True, slots=True)
class Place:
    """A log and where groups stand in it."""

    connection: Connection
    log: Log
    store: LogStore

    async def positions(self, group: str) -> list[Position]:
        """Where a group stands in each stream.

        :raises ConfigurationError: it stands nowhere
        """
        found = [await self.store.position(group, stream) for stream in self.log.streams]
        known = [position for position in found if position is not None]
        if not known:
            raise self._no_group(group)
        return known

    def _no_group(self, group: str) -> ConfigurationError:
        return ConfigurationError(
            f"acemq: log {self.log.name!r} has no group {group!r}: it is made by its first read"
        )

    async def groups(self) -> list[GroupStatus]:
        """Every group that stands in the log, by name."""
        by_group: dict[str, list[Position]] = {}
        for position in await self.store.positions(self.log.streams):
            by_group.setdefault(position.fence.group, []).append(position)
        return [
            GroupStatus(
                group,
                {each.fence.stream: each.next for each in positions},
                tuple(each.fence.stream for each in positions if each.holder),
                await self._lag_if_known(group),
            )
            for group, positions in sorted(by_group.items())
        ]

    async def _lag_if_known(self, group: str) -> Lag | None:
        try:
            return await self.lag(group)
        except LogReplaced:  # one group that must be moved hides no others
            return None

    # ------------------------------------------------------------ seeking

    async def seek(
        self, group: str, target: Target, lane: str | None, *, dry_run: bool
    ) -> list[Moved]:
        """Moves a group, or one lane of it; or only says what that would do.

        :raises ConfigurationError: there is no such group, or the place is not in the stream
        """
        positions = await self.positions(group)
        if lane is not None:
            stream = self.log.stream_of(lane)
            positions = [each for each in positions if each.fence.stream == stream]
            if not positions:
                raise self._no_group(group)
        elif isinstance(target, int) and len(self.log.streams) > 1:
            raise ConfigurationError(
                f"acemq: log {self.log.name!r} has {len(self.log.streams)} streams, each with "
                "offsets of its own: name a partition with the offset, or seek by time"
            )
        goals = [await self._goal(position, target, lane) for position in positions]
        moves = [
            Moved(position.fence.stream, lane, standing_of(position, lane), goal)
            for position, goal in zip(positions, goals, strict=True)
        ]
        if not dry_run:
            for move in moves:
                anchor = await self.log.id_at(move.stream, move.after - 1) if move.after else ""
                await self.store.seek(group, move.stream, move.after, anchor, lane)
        return moves

    async def _goal(self, position: Position, target: Target, lane: str | None) -> int:
        stream = position.fence.stream
        if isinstance(target, Moment):
            return await self.log.at(stream, target.at)
        ends = await self.log.ends(stream)
        if target == "first":
            return ends.oldest
        if target == "next":
            return ends.tail + 1
        if isinstance(target, Back):
            await refuse_replaced(self.log, position, ends)
            return await self._back(stream, standing_of(position, lane), target.count, lane)
        return within(target, stream, ends.oldest, ends.tail)

    async def _back(self, stream: str, stands: int, count: int, lane: str | None) -> int:
        """The offset of the message so many before; the oldest where there are not so many."""
        oldest = (await self.log.ends(stream)).oldest
        span = 2 * count + 100
        while True:
            first = max(oldest, stands - span)
            records = await self._between(stream, first, stands)
            offsets = [each.offset for each in records if lane in (None, each.lane)]
            if count == 0:
                return max(oldest, stands)
            if len(offsets) >= count:
                return offsets[-count]
            if first == oldest:
                return offsets[0] if offsets else max(oldest, stands)
            span *= 4

    # ------------------------------------------------------------ lag

    async def lag(self, group: str, lane: str | None = None) -> Lag:
        """How many messages a group, or one lane of it, has not acknowledged.

        :raises LogReplaced: the log was deleted and made again since the group stood there
        """
        total, exact = 0, True
        for position in await self.positions(group):
            stream = position.fence.stream
            if lane is not None and self.log.stream_of(lane) != stream:
                continue
            counted = await self._behind(position, lane)
            total, exact = total + counted.messages, exact and counted.exact
        return Lag(total, exact)

    async def _behind(self, position: Position, lane: str | None) -> Lag:
        stream = position.fence.stream
        ends = await self.log.ends(stream)
        await refuse_replaced(self.log, position, ends)
        rows = {row.lane: row.next for row in position.lanes}
        lowest = standing_of(position, lane)
        if lane is None:
            lowest = min((lowest, *rows.values()))
        first = max(ends.oldest, lowest)
        if ends.tail + 1 - first > COUNTED:
            return Lag(ends.tail + 1 - first, exact=False)
        records = await self._between(stream, first, ends.tail + 1)
        due = [
            record
            for record in records
            if record.offset >= rows.get(record.lane, position.next) and lane in (None, record.lane)
        ]
        return Lag(len(due))

    # ------------------------------------------------------------ looking

    async def _between(self, stream: str, first: int, until: int) -> list[LogRecord]:
        """The messages of a range, without marks."""
        found: list[LogRecord] = []
        if first >= until:
            return found
        async with self._reader(stream, first) as reader:
            last = first - 1
            while last < until - 1:
                clock = self.connection.work.clock
                arrivals = await reader.take(1000, clock.monotonic() + _PATIENCE)
                if not arrivals:
                    raise BrokerTimeout(
                        f"acemq: the broker gave nothing of stream {stream!r} after offset {last}, "
                        f"though its last is {until - 1}"
                    )
                records = [record_of(stream, arrival) for arrival in arrivals]
                last = records[-1].offset
                found += [each for each in records if each.offset < until and not each.mark]
        return found

    @asynccontextmanager
    async def _reader(self, stream: str, first: int) -> AsyncIterator[StreamReader]:
        reader = await self.connection.read(stream, Offset(first), prefetch=1000)
        try:
            yield reader
        finally:
            await reader.close()
