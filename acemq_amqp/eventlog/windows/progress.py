"""How far time has come: for the stream, and in event time for each of its lanes.

It is kept by the store as watermarks. The stream's own stands under the lane ``""``, which no
lane can have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

#: Under what name a store keeps the stream's own time.
STREAM: Final = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """The time that a stream and its lanes have come to; it never goes back.

    :ivar floor: the stream's own: in processing time its read time, in event time what stands
        for lanes that have no watermark
    :ivar lanes: watermarks of lanes, in event time
    """

    floor: float = -math.inf
    lanes: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, watermarks: Mapping[str, float]) -> Progress:
        """From what a store kept."""
        lanes = dict(watermarks)
        return cls(lanes.pop(STREAM, -math.inf), lanes)

    @property
    def lead(self) -> float:
        """The watermark of the lane that is ahead; ``-inf`` before there is any."""
        return max(self.lanes.values(), default=-math.inf)

    def since(self, earlier: Progress) -> dict[str, float]:
        """What has moved, for ``Step.watermarks``."""
        moved = {lane: mark for lane, mark in self.lanes.items() if earlier.lanes.get(lane) != mark}
        if self.floor != earlier.floor:
            moved[STREAM] = self.floor
        return moved
