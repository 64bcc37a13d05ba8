"""Events into sessions: one that comes near others makes them one, in whatever order they come."""

from __future__ import annotations

from functools import reduce
from typing import Any

from acemq_amqp.eventlog.windows.ledger import Page
from acemq_amqp.eventlog.windows.opened import Opened
from acemq_amqp.eventlog.windows.placing import Placing
from acemq_amqp.eventlog.windows.values import Event


class Merging(Placing):
    """Puts an event into the session that it begins, prolongs, or makes of several."""

    def _enter(self, event: Event, time: float, values: Any) -> None:
        now = self._clock.at(event.lane)
        page = self._ledger.page(event.lane, event.key)
        ((start, end),) = self._assign(time)
        near = self._near(page, start, end, now)
        end = max([end, *(each.end for each in near)])
        if self._expires(end) <= now:
            self._note(event, True, 1, 0)
            return
        for each in near:
            self._ledger.drop(page, each.start)
        session = self._session(event, near, start, end, now)
        self._count(page, session, values)
        self._note(event, False, 0, session.closes <= now or bool(session.sent))

    def _session(
        self, event: Event, near: list[Opened], start: float, end: float, now: float
    ) -> Opened:
        if not near:
            return self._fresh(start, end)
        made = reduce(self._merged, (self._joining(event, each, now) for each in near))
        return made._replace(start=min(start, made.start), end=end, closes=self._closes(end))

    def _near(self, page: Page, start: float, end: float, now: float) -> list[Opened]:
        """Sessions that an event overlaps and that it may still change, earliest first."""
        found = [
            at
            for at, window in page.items()
            if at < end and start < window.end and self._expires(window.end) > now
        ]
        windows = (self._ledger.find(page, at) for at in sorted(found))
        return [window for window in windows if window is not None]

    def _joining(self, event: Event, window: Opened, now: float) -> Opened:
        """A session as part of another; what was, or ought to have been, told has a next one."""
        if window.told or window.closes <= now:
            return self._reopened(event, window)
        return window

    def _merged(self, one: Opened, other: Opened) -> Opened:
        """Two sessions as one; ``one`` is the earlier, and its end is not the merged one's yet."""
        return one._replace(
            revision=max(one.revision, other.revision),
            of=self._aggregation.merge(one.of, other.of),
            sent=(*one.sent, *other.sent),
        )
