"""The windows that a batch touches, and how to take a message back that cannot be counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from acemq_amqp.eventlog.store import WindowKey, WindowRow
from acemq_amqp.eventlog.windows.opened import Opened, dumped, loaded
from acemq_amqp.eventlog.windows.operations import Aggregating
from acemq_amqp.eventlog.windows.values import Event, WindowResult

#: Windows of one lane and key by their start; as the store kept them until they are touched.
Page: TypeAlias = dict[float, Opened | WindowRow]


class Ledger:
    """Windows by lane and key, with what a batch made of them."""

    def __init__(self, open: Iterable[WindowRow], aggregation: Aggregating) -> None:
        self.results: list[WindowResult] = []
        self.side: list[Event] = []
        self._notes: list[str] = []
        self._aggregation = aggregation
        self._pages: dict[tuple[str, str], Page] = {}
        self._stored: set[WindowKey] = set()
        self._undo: list[tuple[Page, float, Opened | WindowRow | None]] = []
        self._lengths = (0, 0, 0)
        for row in open:
            self.page(row.lane, row.key)[row.start] = row
            self._stored.add((row.lane, row.key, row.start))

    def page(self, lane: str, key: str) -> Page:
        """The windows of a lane's key."""
        page = self._pages.get((lane, key))
        if page is None:
            page = self._pages[lane, key] = {}
        return page

    def find(self, page: Page, start: float) -> Opened | None:
        """A window, read where it is as the store kept it."""
        found = page.get(start)
        return loaded(found, self._aggregation) if isinstance(found, WindowRow) else found

    def put(self, page: Page, window: Opened) -> None:
        """Writes a window."""
        start = window.start
        self._undo.append((page, start, page.get(start)))
        page[start] = window

    def drop(self, page: Page, start: float) -> None:
        """Removes a window, which has become part of another."""
        self._undo.append((page, start, page.pop(start)))

    def note(self, what: str) -> None:
        """Counts what became of a late event."""
        self._notes.append(what)

    def begin(self) -> None:
        """Another message begins: :meth:`undo` goes back to here."""
        self._undo.clear()
        self._lengths = (len(self.results), len(self.side), len(self._notes))

    def undo(self) -> None:
        """Takes back what the message changed."""
        for page, start, former in reversed(self._undo):
            if former is None:
                page.pop(start, None)
            else:
                page[start] = former
        results, side, notes = self._lengths
        del self.results[results:], self.side[side:], self._notes[notes:]

    def counted(self) -> dict[str, int]:
        """How often each thing was noted."""
        return Counter(self._notes)

    def written(self) -> tuple[dict[WindowKey, WindowRow], frozenset[WindowKey]]:
        """Windows to write, and keys of those that the store had and that are no more."""
        rows: dict[WindowKey, WindowRow] = {}
        left: set[WindowKey] = set()
        for (lane, key), page in self._pages.items():
            for start, window in page.items():
                left.add((lane, key, start))
                if isinstance(window, Opened):
                    rows[lane, key, start] = dumped(lane, key, window, self._aggregation)
        return rows, frozenset(self._stored - left)
