"""The windows of a query over one stream: what events change in them, and which are ripe.

It reads the store and writes nothing. What it gives is true once it is committed: until then its
time stands where the last commit left it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from acemq_amqp.eventlog.store import LogStore, WindowRow
from acemq_amqp.eventlog.windows.closing import advanced, closed, due, forgettable
from acemq_amqp.eventlog.windows.folding import fold_events
from acemq_amqp.eventlog.windows.progress import Progress
from acemq_amqp.eventlog.windows.timing import ProcessingTime
from acemq_amqp.eventlog.windows.values import TICK, Closed, Event, Folded, WindowPlan

#: Windows that one commit closes at most.
_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit changes in windows.

    :ivar more: whether more are ripe than one commit closes
    """

    folded: Folded
    closed: Closed
    more: bool = False

    @property
    def progress(self) -> Progress:
        """The time it is with this commit."""
        return self.folded.progress


#: Where there are no windows, or nothing changes in them.
NO_CHANGE: Final = Change(Folded.nothing(Progress()), Closed())


class Windowing:
    """Begins where the store is, with :meth:`begin`."""

    def __init__(self, store: LogStore, plan: WindowPlan, stream: str) -> None:
        self._store = store
        self._plan = plan
        self._stream = stream
        self._progress = Progress()

    async def begin(self) -> None:
        """Reads what time it is."""
        marks = await self._store.watermarks(self._plan.query, self._stream)
        self._progress = Progress.of(marks)

    @property
    def read(self) -> float:
        """Up to which publish time was read before; 0.0 where that is not kept."""
        kept = isinstance(self._plan.timing, ProcessingTime) and self._progress.floor > 0
        return self._progress.floor if kept else 0.0

    async def fold(self, events: Sequence[Event]) -> Change:
        """What events change, and what is ripe by them."""
        keys = list({(each.lane, each.key): None for each in events if each.payload is not TICK})
        query = self._plan.query
        open = await self._store.windows(query, self._stream, keys) if keys else []
        return await self._closing(fold_events(events, open, self._plan, self._progress))

    async def quiet(self, clock: float, read: float) -> Change:
        """What is ripe where all is read.

        :param clock: now, in seconds since the epoch
        :param read: publish time of what was read last
        """
        progress = advanced(self._progress, self._plan.timing, clock, read)
        return await self._closing(Folded.nothing(progress))

    async def rest(self) -> Change:
        """What was ripe, and too much for the commit before."""
        return await self._closing(Folded.nothing(self._progress))

    async def _closing(self, folded: Folded) -> Change:
        ripe, more = await self._ripe(folded.progress)
        return Change(folded, closed(ripe, folded, self._plan), more)

    async def _ripe(self, progress: Progress) -> tuple[list[WindowRow], bool]:
        wanted = due(progress, self._plan.timing)
        looks: list[float | dict[str, float]] = [upto for lane, upto in wanted if lane is None]
        lanes = {lane: upto for lane, upto in wanted if lane is not None}
        if lanes:
            looks.append(lanes)
        found: list[WindowRow] = []
        more = False
        for upto in looks:
            some = await self._store.ripe(self._plan.query, self._stream, upto, _AT_ONCE)
            found += some
            more = more or len(some) >= _AT_ONCE
        return found, more

    def committed(self, change: Change) -> None:
        """A change was written."""
        self._progress = change.progress if change.more else change.progress.committed()

    # ------------------------------------------------------------ lanes that are long quiet

    def nothing(self) -> Change:
        """No change but the time, as it stands."""
        return Change(Folded.nothing(self._progress), Closed())

    async def forget(self) -> None:
        """Drops watermarks of lanes that are far behind. The time must be committed."""
        before = forgettable(self._progress, self._plan.timing)
        if before == -inf:
            return
        if await self._store.forget_lanes(self._plan.query, self._stream, before):
            marks = await self._store.watermarks(self._plan.query, self._stream)
            self._progress = Progress.of(marks).committed()
