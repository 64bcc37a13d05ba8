"""The messages of a queue that wait for a consumer, in order.

New ones join at the back. What comes back goes before them, each at its position.
With priorities there is one such line for each, and the highest that is not empty
is served.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from operator import itemgetter

from acemq_amqp.transports.memory.messages import Entry


class _Line:
    """Messages of one priority. What came back was before everything that never left."""

    __slots__ = ("fresh", "returned")

    def __init__(self) -> None:
        self.fresh: deque[Entry] = deque()
        self.returned: list[tuple[int, Entry]] = []

    def head(self) -> Entry | None:
        if self.returned:
            return self.returned[0][1]
        return self.fresh[0] if self.fresh else None

    def pop(self) -> Entry:
        return heapq.heappop(self.returned)[1] if self.returned else self.fresh.popleft()

    def __iter__(self) -> Iterator[Entry]:
        yield from (entry for _, entry in sorted(self.returned, key=itemgetter(0)))
        yield from self.fresh


class Ready:
    """What waits, and how much of it.

    :param max_priority: None where priorities mean nothing
    """

    __slots__ = ("_count", "_lines", "bytes")

    def __init__(self, max_priority: int | None) -> None:
        self._lines = [_Line() for _ in range((max_priority or 0) + 1)]
        self._count = 0
        #: of bodies alone, as RabbitMQ counts them
        self.bytes = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Entry]:
        """In the order of delivery."""
        for line in reversed(self._lines):
            yield from line

    def append(self, entry: Entry) -> None:
        """Joins at the back."""
        self._line(entry).fresh.append(entry)
        self._count += 1
        self.bytes += len(entry.message.body)

    def put_back(self, entry: Entry) -> None:
        """Takes the place that its position gives it."""
        heapq.heappush(self._line(entry).returned, (entry.position, entry))
        self._count += 1
        self.bytes += len(entry.message.body)

    def head(self) -> Entry | None:
        """The next to be delivered."""
        if not self._count:
            return None
        return next(filter(None, (line.head() for line in reversed(self._lines))))

    def pop(self) -> Entry:
        """Takes the next to be delivered. There is one."""
        line = next(line for line in reversed(self._lines) if line.fresh or line.returned)
        entry = line.pop()
        self._count -= 1
        self.bytes -= len(entry.message.body)
        return entry

    def clear(self) -> int:
        """Drops everything; how many that were."""
        count, self._count, self.bytes = self._count, 0, 0
        self._lines = [_Line() for _ in self._lines]
        return count

    def _line(self, entry: Entry) -> _Line:
        lines = self._lines
        if len(lines) == 1:
            return lines[0]
        return lines[min(entry.message.properties.priority or 0, len(lines) - 1)]
