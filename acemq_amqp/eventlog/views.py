"""The streams that pops look into: each kept attached, and brought up to date before it is asked.

What was there when it was attached is waited for, so nothing that is there is missed; what came
later is given a moment. Where one lane alone is wanted there is a view of that lane, since what the
others have in between may be more than memory takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from acemq_amqp.errors import BrokerTimeout
from acemq_amqp.eventlog.attached import Attached, attached
from acemq_amqp.eventlog.reading import Reading
from acemq_amqp.eventlog.shelf import Shelf, busy_lanes
from acemq_amqp.eventlog.store import Position

#: Messages that the broker sends ahead.
PREFETCH: Final = 500
#: Views of one lane that are kept; the one that was looked into longest ago goes.
_LANE_VIEWS: Final = 8


@dataclass(frozen=True, slots=True)
class View:
    """A stream as it stands in memory, for a group's epoch."""

    epoch: int
    stands: Attached
    shelf: Shelf


class Views:
    """The views of one reader. Looked into by one caller at a time."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._views: dict[tuple[str, str | None], View] = {}

    async def look(self, position: Position, only: str | None, wait: float) -> Shelf:
        """What is due in a stream, and in memory.

        :param only: one lane of it
        :param wait: seconds for messages that are not there yet
        :raises LogReplaced: the stream is another one
        :raises RetentionPassed: messages are gone that were not read
        :raises BrokerError: nothing is known of what is due
        """
        place = position.fence.stream, only
        view = self._views.pop(place, None)
        if view is not None and _outdated(view, position, only):
            await view.stands.close()
            view = None
        if view is None:
            view = await self._attached(position, only)
        self._views[place] = view  # the last in line to go
        try:
            await self._fill(view, position, wait)
        except BaseException:
            await self._forget(place)
            raise
        return view.shelf

    async def _attached(self, position: Position, only: str | None) -> View:
        kept = [place for place in self._views if place[1] is not None]
        if only is not None and len(kept) >= _LANE_VIEWS:
            await self._forget(kept[0])
        stands = await attached(self._reading.source, position, prefetch=PREFETCH, lane=only)
        shelf = Shelf(stands.upto, stands.last, only, stands.others)
        return View(position.fence.epoch, stands, shelf)

    async def _fill(self, view: View, position: Position, wait: float) -> None:
        stands, shelf = view.stands, view.shelf
        _tidy(shelf, position)
        limit = self._reading.now() + wait
        while shelf.room > 0:
            behind, now = not stands.caught_up, self._reading.now()
            records = await stands.take(shelf.room, now + stands.patience if behind else limit)
            if not records and behind:
                raise BrokerTimeout(
                    f"acemq: the broker gives nothing of stream {position.fence.stream!r}, where "
                    f"messages up to offset {stands.tail} are: it is overloaded; try again"
                )
            if not records:
                return
            shelf.put(records, position)
            _tidy(shelf, position)
            limit = now  # what has come as well, and no waiting for more

    async def _forget(self, place: tuple[str, str | None]) -> None:
        view = self._views.pop(place, None)
        if view is not None:
            await view.stands.close()

    async def close(self) -> None:
        """Lets go of all streams."""
        for place in list(self._views):
            await self._forget(place)


def _tidy(shelf: Shelf, position: Position) -> None:
    shelf.stand(position)
    shelf.make_room(busy_lanes(position))


def _outdated(view: View, position: Position, only: str | None) -> bool:
    """Whether it must be read again: the group was moved, a lane that was dropped is free, or a
    lane's backlog is done with."""
    if view.epoch != position.fence.epoch:
        return True
    busy = busy_lanes(position)
    if view.stands.over and only is not None and only not in busy and not view.shelf.has(only):
        return True
    return bool(view.shelf.dropped() - busy)
