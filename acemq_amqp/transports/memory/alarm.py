"""The broker's alarm: while it lasts, what is published waits, and nothing else does.

A publish that waits is not written: it can be withdrawn, and then it never turns up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from acemq_amqp.core.ports import Deadline, Event, Outcome, Outgoing, Work


class Answered:
    """A publish whose outcome was known at once. Asking for it lets others run, as a wait would."""

    __slots__ = ("_outcome", "_work")

    def __init__(self, outcome: Outcome, work: Work) -> None:
        self._outcome = outcome
        self._work = work

    async def outcome(self, deadline: Deadline) -> Outcome:
        await self._work.clock.sleep(0)
        return self._outcome


Note: TypeAlias = Callable[[tuple[Callable[[Any], object], Any]], None]


class Publisher(Protocol):
    """Whose a publish is, and how that one waits."""

    login: str
    work: Work


class Withdrawing(Protocol):
    """Who can take a waiting publish back."""

    def withdraw(self, waiting: Waiting) -> None:
        """Gives it its outcome, if it has none."""


class Waiting:
    """A publish that waits for the alarm to pass.

    :ivar link: whose it is
    """

    __slots__ = ("_event", "_on_outcome", "_outcome", "_withdrawing", "link", "outgoing")

    def __init__(
        self,
        link: Publisher,
        outgoing: Outgoing,
        on_outcome: Callable[[Outcome], None] | None,
        withdrawing: Withdrawing,
    ) -> None:
        self.link = link
        self.outgoing = outgoing
        self._on_outcome = on_outcome
        self._withdrawing = withdrawing
        self._event: Event | None = None
        self._outcome: Outcome | None = None

    @property
    def settled(self) -> bool:
        return self._outcome is not None

    def settle(self, outcome: Outcome, note: Note) -> None:
        """Under the broker's lock; who waits is told after it.

        :param note: takes a callback and its argument, to be called later
        """
        self._outcome = outcome
        note((self._tell, outcome))

    def _tell(self, outcome: Outcome) -> None:
        if self._event is not None:
            self._event.set()
        if self._on_outcome is not None:
            self._on_outcome(outcome)

    async def outcome(self, deadline: Deadline) -> Outcome:
        # Made here, where somebody waits: an event belongs to the loop that waits for it.
        event = self._event = self._event or self.link.work.event()
        while self._outcome is None:
            if not await event.wait(deadline):
                self._withdrawing.withdraw(self)
        return self._outcome


class Alarm:
    """Whether publishing is paused, and what waits. Used under the broker's lock."""

    __slots__ = ("reason", "waiting")

    def __init__(self) -> None:
        self.reason: str | None = None
        self.waiting: deque[Waiting] = deque()

    def pass_(self) -> deque[Waiting]:
        """The alarm is over; what waited, in order."""
        self.reason = None
        waiting, self.waiting = self.waiting, deque()
        return waiting

    def of(self, link: object) -> list[Waiting]:
        """Takes out what one link has waiting."""
        mine = [waiting for waiting in self.waiting if waiting.link is link]
        self.waiting = deque(w for w in self.waiting if w.link is not link)
        return mine
