"""Whether a connection does its work: asked of the broker, not only of the socket."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from acemq_amqp.core.observer import Observing


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
    :ivar outstanding: messages handed over and not confirmed yet
    :ivar since_confirm: seconds since the broker last confirmed a message; None where it has
        confirmed none. With messages outstanding, a growing one means that publishing hangs
    """

    status: HealthStatus
    problems: tuple[str, ...] = ()
    consumers_wanted: int = 0
    consumers_confirmed: int = 0
    blocked: str | None = None
    stalled: tuple[str, ...] = field(default=())
    recoveries: int = 0
    outstanding: int = 0
    since_confirm: float | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.status is HealthStatus.UP


@dataclass(frozen=True, slots=True)
class Figures:
    """What a connection knows of itself; queues of consumers by name."""

    wanted: tuple[str, ...]
    missing: tuple[str, ...]
    stalled: tuple[str, ...]
    stuck: int
    blocked: str | None
    outstanding: int
    since_confirm: float | None
    recoveries: int


def report_of(failure: str, figures: Figures) -> HealthReport:
    """The report: down where the broker could not be asked; ``failure`` says why."""
    lesser = _problems(figures)
    status = HealthStatus.DOWN if failure else HealthStatus.DEGRADED if lesser else HealthStatus.UP
    return HealthReport(
        status,
        tuple([failure, *lesser] if failure else lesser),
        len(figures.wanted),
        len(figures.wanted) - len(figures.missing),
        figures.blocked,
        figures.stalled,
        figures.recoveries,
        figures.outstanding,
        figures.since_confirm,
    )


def _problems(figures: Figures) -> list[str]:
    problems = []
    if figures.missing:
        problems.append(f"not consuming: {', '.join(figures.missing)}")
    if figures.blocked is not None:
        problems.append(f"publishing is paused: {figures.blocked}")
    if figures.stalled:
        problems.append(f"every delivery waits to be settled: {', '.join(figures.stalled)}")
    if figures.stuck:
        problems.append(
            f"{figures.stuck} failed messages cannot be moved where they belong; see the log"
        )
    return problems


def tell(report: HealthReport, observing: Observing) -> None:
    """The figures of a report as gauges."""
    gauges = {
        "acemq.consumers.wanted": report.consumers_wanted,
        "acemq.consumers.confirmed": report.consumers_confirmed,
        "acemq.consumers.stalled": len(report.stalled),
        "acemq.publish.outstanding": report.outstanding,
        "acemq.publish.since.confirm": report.since_confirm,
    }
    for name, value in gauges.items():
        if value is not None:
            observing.gauge(name, {}, float(value))


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
        sum(report.outstanding for report in listed),
        max((r.since_confirm for r in listed if r.since_confirm is not None), default=None),
    )
