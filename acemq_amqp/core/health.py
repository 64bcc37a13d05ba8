"""Whether a connection does its work: asked of the broker, not only of the socket."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field


class HealthStatus(enum.Enum):
    """From well to not at all."""

    UP = "up"
    DEGRADED = "degraded"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class HealthReport:
    """What a health check found.

    :ivar problems: one sentence each, empty when all is well
    :ivar consumers_wanted: consumers that should be running
    :ivar consumers_confirmed: consumers that the broker has confirmed
    :ivar blocked: the broker's reason while it has paused publishing, else None
    :ivar stalled: queues of consumers whose whole prefetch waits for settlements
    :ivar recoveries: how often a connection was made again
    """

    status: HealthStatus
    problems: tuple[str, ...] = ()
    consumers_wanted: int = 0
    consumers_confirmed: int = 0
    blocked: str | None = None
    stalled: tuple[str, ...] = field(default=())
    recoveries: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.status is HealthStatus.UP


def aggregate_health(reports: Iterable[HealthReport]) -> HealthReport:
    """Several connections as one: the worst status, and every problem."""
    listed = list(reports)
    order = [HealthStatus.UP, HealthStatus.DEGRADED, HealthStatus.DOWN]
    worst = max((order.index(report.status) for report in listed), default=0)
    return HealthReport(
        order[worst],
        tuple(problem for report in listed for problem in report.problems),
        sum(report.consumers_wanted for report in listed),
        sum(report.consumers_confirmed for report in listed),
        next((report.blocked for report in listed if report.blocked is not None), None),
        tuple(queue for report in listed for queue in report.stalled),
        sum(report.recoveries for report in listed),
    )
