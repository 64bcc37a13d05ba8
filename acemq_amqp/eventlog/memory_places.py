"""A group's place in a stream, in memory: who holds it, and where its lanes stand.

Moments are the caller's; nothing here locks or waits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from acemq_amqp.eventlog.store import Fence, LaneLease, LaneRow, Position, Step


@dataclass(slots=True)
class Lane:
    """A lane's row."""

    next: int
    attempts: int = 0
    token: str = ""
    until: float = 0.0


@dataclass(slots=True)
class Place:
    """A position, with its leases."""

    epoch: int
    next: int
    anchor: str
    unfinished: int = 0
    attempts: int = 0
    holder: str = ""
    until: float = 0.0
    lanes: dict[str, Lane] = field(default_factory=dict)

    def held(self, now: float) -> bool:
        """Whether somebody holds the stream whole."""
        return self.holder != "" and self.until > now

    def leased(self, now: float) -> bool:
        """Whether somebody has leased a lane."""
        return any(lane.until > now for lane in self.lanes.values())

    def end_hold(self) -> None:
        """Nobody holds the stream any more."""
        self.holder, self.until = "", 0.0

    def position(self, group: str, stream: str, now: float) -> Position:
        """The place as it is told."""
        lanes = (
            LaneRow(name, each.next, each.attempts, each.token if each.until > now else "")
            for name, each in sorted(self.lanes.items())
        )
        return Position(
            Fence(group, stream, self.epoch),
            self.next,
            self.anchor,
            self.unfinished,
            self.attempts,
            self.holder if self.held(now) else "",
            tuple(lanes),
        )

    def commit(self, step: Step) -> None:
        """Moves to where a holder has come."""
        before = self.next
        if step.upto > before or (step.upto == before and step.anchor):
            self.next, self.anchor = step.upto, step.anchor
        self.unfinished, self.attempts = step.begun, step.attempts
        for name, lane in list(self.lanes.items()):
            if lane.next <= step.upto and step.upto >= before:
                del self.lanes[name]
            elif lane.next < step.upto:
                lane.next, lane.attempts = step.upto, 0

    def lease(
        self, wanted: Mapping[str, int], token: str, now: float, until: float
    ) -> list[LaneLease]:
        """Leases lanes that are free and stand there."""
        leased = []
        for name, next_ in wanted.items():
            lane = self.lanes.get(name)
            if lane is None and next_ >= self.next:
                lane = self.lanes[name] = Lane(next_)
            if lane is not None and lane.next == next_ and lane.until <= now:
                lane.attempts += 1
                lane.token, lane.until = token, until
                leased.append(LaneLease(name, next_, lane.attempts))
        return leased

    def of_token(self, names: Iterable[str], token: str) -> dict[str, Lane]:
        """Those of these lanes that are leased under a token, or were until it lapsed."""
        found = {name: self.lanes[name] for name in names if name in self.lanes}
        return {name: lane for name, lane in found.items() if lane.token == token}

    def settle(self, moved: Mapping[str, int], freed: Collection[str]) -> None:
        """Moves lanes forward, and frees some."""
        for name, onto in moved.items():
            lane = self.lanes[name]
            if onto > lane.next:
                lane.next, lane.attempts = onto, int(name not in freed)
        for name in freed:
            self.lanes[name].token, self.lanes[name].until = "", 0.0

    def advance(self, next: int, anchor: str, now: float) -> None:
        """Moves the watermark forward."""
        before = self.next
        if next > before:
            self.next, self.anchor, self.attempts = next, anchor, 0
        for name, lane in list(self.lanes.items()):
            if lane.until > now or not before <= lane.next <= next:
                continue
            if lane.attempts:
                lane.next = next
            else:
                del self.lanes[name]

    def seek(self, next: int, anchor: str, lane: str | None) -> None:
        """Moves all lanes, or one; leases and attempts end."""
        self.unfinished, self.attempts = 0, 0
        self.end_hold()
        if lane is None:
            self.next, self.anchor, self.lanes = next, anchor, {}
            return
        self.lanes = {name: Lane(each.next) for name, each in self.lanes.items()}
        self.lanes[lane] = Lane(next)
