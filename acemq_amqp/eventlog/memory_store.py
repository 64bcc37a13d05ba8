"""What event logs keep, in memory: for tests, and where losing it with the process does no harm."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Final

from acemq_amqp.durations import Duration, seconds
from acemq_amqp.eventlog.memory_places import Place
from acemq_amqp.eventlog.memory_windows import OpenWindows
from acemq_amqp.eventlog.registering import registered
from acemq_amqp.eventlog.store import (
    Fence,
    LaneLease,
    Position,
    Query,
    Step,
    WindowRow,
)
from acemq_amqp.patterns.memory_outbox import InMemoryOutboxStore
from acemq_amqp.patterns.outbox import OutboxRecord

#: seconds that ids of handled windows are remembered
_REMEMBERED: Final = 7 * 86400.0
_PURGE_EVERY: Final = 10_000


@dataclass(slots=True)
class _Known:
    shape: str
    generation: int = 1
    streams: dict[str, OpenWindows] = field(default_factory=dict)


@dataclass(slots=True)
class _Seen:
    stream: str
    at: float


class InMemoryLogStore:
    """Positions, windows and output that live as long as this process.

    Each method is one transaction, as in a database: all of it or nothing, and none sees another
    half done. ``Step.work`` is called with None, while the store is kept from others.

    :param lease: how long a hold of a stream, or a lane's lease, lasts without being renewed
    :param outbox: where ``Step.records`` go; one of its own if none is given
    :param clock: seconds that never step back
    """

    def __init__(
        self,
        *,
        lease: Duration = 30.0,
        outbox: InMemoryOutboxStore | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lease = seconds(lease, "lease")
        self._outbox = outbox or InMemoryOutboxStore(clock=clock)
        self._clock = clock
        self._guard = threading.RLock()
        self._epochs = itertools.count(1)
        # what is shared with views of another lease is changed in its place
        self._places: dict[tuple[str, str], Place] = {}
        self._queries: dict[str, _Known] = {}
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._noted = 0

    def __repr__(self) -> str:
        return f"InMemoryLogStore({len(self._places)} positions)"

    @property
    def lease(self) -> float:
        """Seconds that a hold, or a lane's lease, lasts without being renewed."""
        return self._lease

    def leasing(self, seconds: float) -> InMemoryLogStore:
        """The same store, whose holds and leases last so long."""
        view = copy(self)
        view._lease = seconds
        return view

    @property
    def outbox(self) -> InMemoryOutboxStore:
        """Where output goes, for a relay to publish."""
        return self._outbox

    # ------------------------------------------------------------ positions

    async def position(self, group: str, stream: str) -> Position | None:
        """Where a group stands; None where it has not been there."""
        with self._guard:
            place = self._places.get((group, stream))
            return None if place is None else place.position(group, stream, self._clock())

    async def positions(self, streams: Sequence[str]) -> list[Position]:
        """Where all groups stand in these streams, ordered by group and stream."""
        with self._guard:
            wanted = set(streams)
            found = sorted(of for of in self._places if of[1] in wanted)
            return [self._places[of].position(*of, self._clock()) for of in found]

    async def create(self, group: str, stream: str, next: int, anchor: str) -> Position:
        """Puts a group at an offset, unless it stands somewhere: then that is given."""
        with self._guard:
            if (group, stream) not in self._places:
                self._places[group, stream] = Place(self._epoch(), next, anchor)
            return self._places[group, stream].position(group, stream, self._clock())

    async def hold(self, group: str, stream: str, holder: str) -> Position | None:
        """Takes a stream whole and raises the epoch; None where it is taken or not there."""
        with self._guard:
            place, now = self._places.get((group, stream)), self._clock()
            if place is None or (place.held(now) and place.holder != holder):
                return None
            if place.leased(now):
                return None
            place.epoch, place.holder, place.until = self._epoch(), holder, self._end()
            return place.position(group, stream, now)

    async def renew(self, fences: Sequence[Fence], holder: str) -> set[Fence]:
        """Begins holds anew, and returns those that are still this holder's."""
        with self._guard:
            mine = {fence for fence in fences if self._holding(fence, holder)}
            for fence in mine:
                self._places[fence.group, fence.stream].until = self._end()
            return mine

    async def release(self, fence: Fence, holder: str) -> None:
        """Gives a hold back, for others to take at once."""
        with self._guard:
            if place := self._holding(fence, holder):
                place.end_hold()

    async def commit(self, fence: Fence, holder: str, step: Step) -> bool:
        """Writes a step, and begins the hold anew; False, and nothing, where that was passed."""
        with self._guard:
            place = self._holding(fence, holder)
            windows = self._open(step.query, fence.stream) if step.query else None
            if place is None or (step.query and windows is None):
                return False
            if step.work is not None:
                step.work(None)
            self._put_out(fence, step.records, step.seen)
            place.commit(step)
            place.until = self._end()
            if windows is not None:
                windows.write(step.closed, step.windows, step.watermarks)
            return True

    # ------------------------------------------------------------ lanes

    async def lease_lanes(
        self, fence: Fence, wanted: Mapping[str, int], token: str
    ) -> list[LaneLease]:
        """Leases lanes that are free and stand where the caller thinks."""
        with self._guard:
            place, now = self._fenced(fence), self._clock()
            if place is None or place.held(now):
                return []
            place.end_hold()
            return place.lease(wanted, token, now, self._end())

    async def renew_lanes(self, fence: Fence, lanes: Sequence[str], token: str) -> set[str]:
        """Begins leases anew, and returns the lanes that are still leased under that token."""
        with self._guard:
            place = self._fenced(fence)
            mine = {} if place is None else place.of_token(lanes, token)
            for lane in mine.values():
                lane.until = self._end()
            return set(mine)

    async def settle_lanes(
        self,
        fence: Fence,
        token: str,
        moved: Mapping[str, int],
        freed: Sequence[str],
        *,
        records: Sequence[OutboxRecord] = (),
        seen: Sequence[str] = (),
    ) -> set[str]:
        """Moves and frees leased lanes, and writes output; all of it, or nothing."""
        with self._guard:
            named = {*moved, *freed}
            place = self._fenced(fence)
            mine = set() if place is None else set(place.of_token(named, token))
            if place is not None and mine and mine == named:
                self._put_out(fence, records, seen)
                place.settle(moved, freed)
            return mine

    async def advance(self, fence: Fence, next: int, anchor: str) -> bool:
        """Moves the watermark forward, never back; free lanes' rows that it reaches go."""
        with self._guard:
            place, now = self._fenced(fence), self._clock()
            if place is None or place.held(now):
                return False
            place.end_hold()
            place.advance(next, anchor, now)
            return True

    async def seek(
        self, group: str, stream: str, next: int, anchor: str, lane: str | None = None
    ) -> Position | None:
        """Moves a group, or one lane of it, and raises the epoch; leases and attempts end."""
        with self._guard:
            place = self._places.get((group, stream))
            if place is None:
                return None
            place.epoch = self._epoch()
            place.seek(next, anchor, lane)
            self._forget_seen({stream}, group)
            return place.position(group, stream, self._clock())

    async def delete_group(self, group: str, streams: Sequence[str]) -> int:
        """Forgets a group with its lanes; returns in how many streams it stood."""
        with self._guard:
            self._forget_seen(set(streams), group)
            gone = [self._places.pop((group, stream), None) for stream in set(streams)]
            return sum(place is not None for place in gone)

    async def delete_streams(self, streams: Sequence[str]) -> None:
        """Forgets every group's position in these streams, and windows over them."""
        with self._guard:
            gone = set(streams)
            self._forget_seen(gone)
            for of in [of for of in self._places if of[1] in gone]:
                del self._places[of]
            for known in self._queries.values():
                of_gone = [known.streams.pop(stream, None) for stream in gone]
                known.generation += any(each is not None and each.kept for each in of_gone)

    # ------------------------------------------------------------ windows

    async def register(self, query: str, shape: str, reset: str | None = None) -> Query:
        """Makes a query known, or finds it, or resets it."""
        with self._guard:
            before = self._queries.get(query)
            known = None if before is None else (before.generation, before.shape)
            now = registered(query, shape, known, reset)
            if now.fresh:
                self._queries[query] = _Known(shape, now.generation)
            return now

    async def windows(
        self, query: Query, stream: str, keys: Sequence[tuple[str, str]]
    ) -> list[WindowRow]:
        """The open windows of these (lane, key) pairs."""
        with self._guard:
            windows = self._open(query, stream)
            return windows.of(keys) if windows else []

    async def ripe(
        self, query: Query, stream: str, upto: float | Mapping[str, float], most: int
    ) -> list[WindowRow]:
        """Windows that close by a moment, or of each lane by its own, earliest first."""
        with self._guard:
            windows = self._open(query, stream)
            return windows.ripe(upto, most) if windows else []

    async def watermarks(self, query: Query, stream: str) -> dict[str, float]:
        """Event time that the lanes have come to."""
        with self._guard:
            windows = self._open(query, stream)
            return {} if windows is None else dict(windows.watermarks)

    async def forget_lanes(self, query: Query, stream: str, before: float) -> int:
        """Drops watermarks below a moment, of lanes that have no open window."""
        with self._guard:
            windows = self._open(query, stream)
            return 0 if windows is None else windows.forget_lanes(before)

    async def open_windows(self, query: Query) -> int:
        """How many windows are open."""
        with self._guard:
            known = self._queries.get(query.id)
            if known is None or known.generation != query.generation:
                return 0
            return sum(map(len, known.streams.values()))

    # ------------------------------------------------------------ output seen before

    async def unseen(self, group: str, ids: Sequence[str]) -> set[str]:
        """Those of these ids that this group has not handled in the last seven days."""
        with self._guard:
            return {each for each in ids if not self._remembers(self._seen.get((group, each)))}

    # ------------------------------------------------------------ inside

    def _epoch(self) -> int:
        """One that no fence has had: also not that of a group that was deleted."""
        return next(self._epochs)

    def _end(self) -> float:
        return self._clock() + self._lease

    def _fenced(self, fence: Fence) -> Place | None:
        place = self._places.get((fence.group, fence.stream))
        return place if place is not None and place.epoch == fence.epoch else None

    def _holding(self, fence: Fence, holder: str) -> Place | None:
        place = self._fenced(fence)
        return place if place is not None and place.holder == holder else None

    def _open(self, query: Query, stream: str) -> OpenWindows | None:
        known = self._queries.get(query.id)
        if known is None or known.generation != query.generation:
            return None
        return known.streams.setdefault(stream, OpenWindows())

    def _put_out(self, fence: Fence, records: Sequence[OutboxRecord], seen: Sequence[str]) -> None:
        self._outbox.add_many(records)
        now = self._clock()
        for each in seen:
            self._seen[fence.group, each] = _Seen(fence.stream, now)
        self._noted += len(seen)
        if self._noted >= _PURGE_EVERY:
            self._noted = 0
            for of in [of for of, at in self._seen.items() if not self._remembers(at)]:
                del self._seen[of]

    def _remembers(self, seen: _Seen | None) -> bool:
        return seen is not None and seen.at > self._clock() - _REMEMBERED

    def _forget_seen(self, streams: set[str], group: str | None = None) -> None:
        for of, each in list(self._seen.items()):
            if each.stream in streams and group in (None, of[0]):
                del self._seen[of]
