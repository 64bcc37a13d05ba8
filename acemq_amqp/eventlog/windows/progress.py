"""How far time has come: for the stream, and in event time for each of its lanes.

It is kept by the store as watermarks. The stream's own stands under the lane ``""``, which no
lane can have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

#: Under what name a store keeps the stream's own time.
STREAM: Final = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """The time that a stream and its lanes have come to; it never goes back.

    :ivar floor: the stream's own: in processing time its read time, in event time what stands
        for lanes that have no watermark
    :ivar lanes: watermarks of lanes, in event time
    :ivar lead: the watermark of the lane that is ahead
    :ivar moved: lanes whose windows were not asked for since they moved; all of them at first
    """

    floor: float = -math.inf
    lanes: Mapping[str, float] = field(default_factory=dict)
    lead: float = -math.inf
    moved: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, watermarks: Mapping[str, float]) -> Progress:
        """From what a store kept."""
        lanes = dict(watermarks)
        floor = lanes.pop(STREAM, -math.inf)
        return cls(floor, lanes, max(lanes.values(), default=-math.inf), lanes)

    def watermarks(self) -> dict[str, float]:
        """What to write: for ``Step.watermarks``."""
        return dict(self.moved) if math.isinf(self.floor) else {**self.moved, STREAM: self.floor}

    def committed(self) -> Progress:
        """The same, once it is written and what was ripe by then is closed."""
        return replace(self, moved={})
