"""What a reader that leases lanes keeps in memory of a stream: what is due, by lane.

Lanes are independent: one that is leased, or that nobody finishes, does not stop the others. What
it has over its share is dropped here and read again once it moves. The shelf says how far the
group's watermark may go: to the first message that is not done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from acemq_amqp.eventlog.records import LogRecord
from acemq_amqp.eventlog.store import Position

#: Messages that are kept.
CAPACITY: Final = 2000
#: A lane that is in somebody's hands keeps so many when the room is needed.
SHARE: Final = CAPACITY // 16
#: A lane that stands so far behind what was read, with nothing left in between, is moved on.
TRAILING: Final = 1000


class Entry(NamedTuple):
    """A message, and the id of the one before it in the stream."""

    record: LogRecord
    before: str

    @property
    def seam(self) -> Seam:
        """Its place."""
        return Seam(self.record.offset, self.before)


class Seam(NamedTuple):
    """A place in a stream, and the id of the message before it; ``""`` where that is not known."""

    offset: int
    before: str


class Shelf:
    """Begins empty, where the position is.

    :param only: the lane that is kept; None keeps all
    :param others: where what other lanes have due begins, if they have something that does not
        come here
    :ivar upto: the offset after the last message that was put here
    """

    def __init__(
        self, upto: int, last: str, only: str | None = None, others: Seam | None = None
    ) -> None:
        self.upto = upto
        self._last = last
        self._only = only
        self._lanes: dict[str, deque[Entry]] = {}
        self._size = 0
        #: first due entry of each lane that is not kept
        self._dropped: dict[str, Entry] = {}
        #: the first that is due of the lanes that nobody wants here
        self._others = others

    @property
    def room(self) -> int:
        """How many more messages it takes."""
        return CAPACITY - self._size

    def put(self, records: Sequence[LogRecord], position: Position) -> None:
        """Adds what was read, in order, as far as it is due."""
        rows = {row.lane: row.next for row in position.lanes}
        for record in records:
            entry = Entry(record, self._last)
            self.upto, self._last = record.offset + 1, record.id
            lane = record.lane
            if record.mark or record.offset < rows.get(lane, position.next):
                continue
            if self._only not in (None, lane):
                self._others = self._others or entry.seam
            elif lane not in self._dropped:
                self._lanes.setdefault(lane, deque()).append(entry)
                self._size += 1

    def stand(self, position: Position) -> None:
        """Takes off what is done, as the store has it."""
        rows = {row.lane: row.next for row in position.lanes}
        for lane in list(self._lanes):
            self._take_off(lane, rows.get(lane, position.next))

    def _take_off(self, lane: str, below: int) -> None:
        entries = self._lanes[lane]
        while entries and entries[0].record.offset < below:
            entries.popleft()
            self._size -= 1
        if not entries:
            del self._lanes[lane]

    def make_room(self, busy: Collection[str]) -> None:
        """Drops what the fullest busy lanes have, where it is full."""
        while self.room <= 0:
            stuck = [lane for lane in self._lanes if lane in busy]
            if not stuck:
                return
            fullest = max(stuck, key=lambda lane: len(self._lanes[lane]))
            if len(self._lanes[fullest]) <= SHARE:
                return
            entries = self._lanes.pop(fullest)
            self._dropped[fullest] = entries[0]
            self._size -= len(entries)

    def dropped(self) -> frozenset[str]:
        """Lanes that were dropped."""
        return frozenset(self._dropped)

    def has(self, lane: str) -> bool:
        """Whether something of a lane is due."""
        return lane in self._lanes or lane in self._dropped

    def offer(
        self, most: int, lanes: int, position: Position, only: str | None, open_lanes: int
    ) -> dict[str, list[LogRecord]]:
        """What may be given out: lanes by their oldest message, each as far as ``most`` reaches.

        :param lanes: how many at most
        :param open_lanes: how many lanes may have a row at a time: beyond that only those that
            have one, and the one that the watermark waits for
        """
        rows = {row.lane for row in position.lanes}
        busy = busy_lanes(position)
        names = (only,) if only is not None else tuple(self._lanes)
        free = [name for name in names if name in self._lanes and name not in busy]
        free.sort(key=lambda name: self._lanes[name][0].record.offset)
        head, _ = self.watermark()
        offered: dict[str, list[LogRecord]] = {}
        for name in free:
            if most <= 0 or len(offered) >= lanes:
                break
            entries = self._lanes[name]
            opens = name not in rows and entries[0].record.offset != head
            if opens and len(rows | offered.keys()) >= open_lanes:
                continue
            offered[name] = [entries[i].record for i in range(min(most, len(entries)))]
            most -= len(offered[name])
        return offered

    def trailing(self, position: Position) -> dict[str, int]:
        """Free lanes that stand behind what was read and have nothing left there, and where.

        Where a lane was sought back, or is read alone, no watermark passes it.
        """
        limit = min(position.next, self.upto)
        stands = {row.lane: row.next for row in position.lanes if not row.token}
        if self._only is not None:
            limit = max(limit, self.upto - TRAILING)
            if self._only not in (row.lane for row in position.lanes) and self._others:
                stands[self._only] = position.next
        return {
            lane: next
            for lane, next in stands.items()
            if next < limit and not self.has(lane) and self._only in (None, lane)
        }

    def watermark(self) -> Seam:
        """How far the group's watermark may go, and the id of the message before it."""
        seams = [entries[0].seam for entries in self._lanes.values()]
        seams += [entry.seam for entry in self._dropped.values()]
        seams += [] if self._others is None else [self._others]
        return min(seams, default=Seam(self.upto, self._last))


def busy_lanes(position: Position) -> frozenset[str]:
    """Lanes that somebody has leased."""
    return frozenset(row.lane for row in position.lanes if row.token)


def standing(position: Position, lanes: Collection[str]) -> Mapping[str, int]:
    """Where lanes stand."""
    rows = {row.lane: row.next for row in position.lanes}
    return {lane: rows.get(lane, position.next) for lane in lanes}
