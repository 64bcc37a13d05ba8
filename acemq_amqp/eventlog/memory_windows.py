"""Open windows of one query over one stream, in memory: by lane and key, and by when they close."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping

from acemq_amqp.eventlog.store import WindowKey, WindowRow

_Closing = tuple[float, str, str, float]


class OpenWindows:
    """Windows and watermarks. What is looked up does not cost more beside many others."""

    def __init__(self) -> None:
        self._by_pair: dict[tuple[str, str], dict[float, WindowRow]] = {}
        #: when windows close, by lane, and under None of all lanes; where a window has moved, or is
        #: gone, a line is left over
        self._closing: dict[str | None, list[_Closing]] = {None: []}
        self._open: dict[str, int] = {}
        self.watermarks: dict[str, float] = {}

    def __len__(self) -> int:
        return sum(self._open.values())

    @property
    def kept(self) -> bool:
        """Whether there is anything of it."""
        return len(self) > 0 or bool(self.watermarks)

    def write(
        self,
        closed: Iterable[WindowKey],
        rows: Iterable[WindowRow],
        watermarks: Mapping[str, float],
    ) -> None:
        """Removes windows, then writes others; moves watermarks, forward only."""
        for lane, key, start in closed:
            self._remove(lane, key, start)
        for row in rows:
            self._put(row)
        for lane, moment in watermarks.items():
            self.watermarks[lane] = max(moment, self.watermarks.get(lane, -math.inf))

    def of(self, pairs: Iterable[tuple[str, str]]) -> list[WindowRow]:
        """Windows of these (lane, key) pairs."""
        found = dict.fromkeys(pairs)
        return [row for pair in found for row in self._by_pair.get(pair, {}).values()]

    def ripe(self, upto: float | Mapping[str, float], most: int) -> list[WindowRow]:
        """Windows that close by a moment, or of each lane by its own; earliest first."""
        moments = upto if isinstance(upto, Mapping) else {None: upto}
        taken: list[tuple[str | None, _Closing]] = []
        ripening = [self._ripening(lane, each, taken) for lane, each in moments.items()]
        merged = heapq.merge(*ripening, key=lambda row: row.closes)
        found = list(itertools.islice(merged, most))
        for lane, line in taken:
            heapq.heappush(self._closing[lane], line)
        return found

    def forget_lanes(self, before: float) -> int:
        """Drops watermarks of lanes without windows."""
        gone = [
            lane
            for lane, moment in self.watermarks.items()
            if lane and moment < before and not self._open.get(lane)
        ]
        for lane in gone:
            del self.watermarks[lane]
        return len(gone)

    def _put(self, row: WindowRow) -> None:
        windows = self._by_pair.setdefault((row.lane, row.key), {})
        before = windows.get(row.start)
        windows[row.start] = row
        if before is None:
            self._open[row.lane] = self._open.get(row.lane, 0) + 1
        if row.closes < math.inf and (before is None or before.closes != row.closes):
            line = (row.closes, row.lane, row.key, row.start)
            heapq.heappush(self._closing[None], line)
            heapq.heappush(self._closing.setdefault(row.lane, []), line)

    def _remove(self, lane: str, key: str, start: float) -> None:
        windows = self._by_pair.get((lane, key), {})
        if windows.pop(start, None) is None:
            return
        if not windows:
            del self._by_pair[lane, key]
        self._open[lane] -= 1
        if not self._open[lane]:
            del self._open[lane]
            self._closing.pop(lane, None)

    def _ripening(
        self, lane: str | None, upto: float, taken: list[tuple[str | None, _Closing]]
    ) -> Iterator[WindowRow]:
        """Windows one by one as they close; their lines are taken off, and what is left over goes.

        :param taken: what was taken off, to be put back
        """
        closing = self._closing.get(lane, [])
        last: _Closing | None = None
        while closing and closing[0][0] <= upto:
            line = heapq.heappop(closing)
            row = self._by_pair.get((line[1], line[2]), {}).get(line[3])
            if row is not None and row.closes == line[0] and line != last:
                last = line
                taken.append((lane, line))
                yield row
