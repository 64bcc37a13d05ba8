"""Events into windows that stand side by side or overlap, and do not depend on each other."""

from __future__ import annotations

from typing import Any

from acemq_amqp.eventlog.windows.clocks import Clock
from acemq_amqp.eventlog.windows.ledger import Ledger, Page
from acemq_amqp.eventlog.windows.opened import Opened, after, result_of
from acemq_amqp.eventlog.windows.timing import EventTime
from acemq_amqp.eventlog.windows.values import TICK, Event, WindowPlan


class Placing:
    """Puts an event into each of its windows that is open, or that may still be corrected."""

    def __init__(self, plan: WindowPlan, clock: Clock, ledger: Ledger) -> None:
        self._plan, self._clock, self._ledger = plan, clock, ledger
        self._aggregation = plan.aggregation
        self._assign = plan.kind.assign
        self._closes, self._expires = plan.timing.closes, plan.timing.expires
        late = plan.timing.late if isinstance(plan.timing, EventTime) else "drop"
        self._late = late

    def place(self, event: Event) -> None:
        """Counts an event, or notes that it came late.

        :raises MessageError: it cannot be counted
        """
        if event.payload is TICK:
            return self._clock.see(event.lane, event.time)
        values = self._aggregation.read(event.payload)
        time = self._clock.placed(event.time)
        if time != event.time and self._assign(time) != self._assign(event.time):
            self._ledger.note("moved")
        self._enter(event, time, values)
        self._clock.see(event.lane, event.time)

    def _enter(self, event: Event, time: float, values: Any) -> None:
        now = self._clock.at(event.lane)
        page = self._ledger.page(event.lane, event.key)
        closed = corrected = 0
        windows = self._assign(time)
        for start, end in windows:
            if self._closes(end) > now:
                window = self._ledger.find(page, start) or self._fresh(start, end)
            elif self._expires(end) > now:
                window = self._corrected(event, page, start, end)
                corrected += 1
            else:
                closed += 1
                continue
            self._count(page, window, values)
        self._note(event, closed == len(windows), closed, corrected)

    def _count(self, page: Page, window: Opened, values: Any) -> None:
        start, end, closes, revision, of, told, sent = window
        of = self._aggregation.add(of, values)
        self._ledger.put(page, Opened(start, end, closes, revision, of, told, sent))

    def _fresh(self, start: float, end: float) -> Opened:
        return Opened(start, end, self._closes(end), 0, self._aggregation.initial())

    def _corrected(self, event: Event, page: Page, start: float, end: float) -> Opened:
        found = self._ledger.find(page, start)
        return self._fresh(start, end) if found is None else self._reopened(event, found)

    def _reopened(self, event: Event, window: Opened) -> Opened:
        """A closed window that a late event corrects: what it came to before is told first."""
        window = self._told(event, window)
        closes, revision = self._closes(window.end), window.revision + 1
        return window._replace(closes=closes, revision=revision, told=False)

    def _told(self, event: Event, window: Opened) -> Opened:
        if window.told:
            return window
        result = result_of(event.lane, event.key, window, self._plan)
        self._ledger.results.append(result)
        return after(window, result, self._plan)

    def _note(self, event: Event, late: bool, closed: int, corrected: int) -> None:
        if late:
            side = self._late == "side"
            self._ledger.note("side" if side else "dropped")
            if side:
                self._ledger.side.append(event)
            return
        if corrected:
            self._ledger.note("included")
        if closed:
            self._ledger.note("partly")
