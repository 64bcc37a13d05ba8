"""An open window: as folding has it, as a store keeps it, and what is told of it.

A store's ``state`` is a JSON object: ``of`` is what the aggregates know; ``told``, where it is
there, that nothing came since the last result; ``sent`` the ids of results that the next stands
for.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from acemq_amqp.eventlog.store import WindowRow
from acemq_amqp.eventlog.windows.ids import window_id
from acemq_amqp.eventlog.windows.operations import Aggregating
from acemq_amqp.eventlog.windows.values import WindowPlan, WindowResult


class Opened(NamedTuple):
    """A window's state as a value.

    :ivar revision: of its next result, or of its last where it is told
    :ivar of: what its aggregates know
    :ivar told: nothing came since its last result
    :ivar sent: ids of results that the next one stands for
    """

    start: float
    end: float
    closes: float
    revision: int
    of: Any
    told: bool = False
    sent: tuple[str, ...] = ()


def loaded(row: WindowRow, aggregation: Aggregating) -> Opened:
    """A window as a store kept it."""
    kept = json.loads(row.state)
    return Opened(
        row.start,
        row.end,
        row.closes,
        row.revision,
        aggregation.load(kept["of"]),
        kept.get("told", False),
        tuple(kept.get("sent", ())),
    )


def dumped(lane: str, key: str, window: Opened, aggregation: Aggregating) -> WindowRow:
    """A window as a store keeps it."""
    kept: dict[str, Any] = {"of": aggregation.dump(window.of)}
    if window.told:
        kept["told"] = True
    if window.sent:
        kept["sent"] = window.sent
    state = json.dumps(kept, allow_nan=False, separators=(",", ":"))
    start, end, closes, revision = window[:4]
    return WindowRow(lane, key, start, end, closes, revision, state)


def result_of(lane: str, key: str, window: Opened, plan: WindowPlan) -> WindowResult:
    """What is told of a window."""
    start, end, revision = window.start, window.end, window.revision
    made = window_id(plan.query, lane, key, start, end, revision)
    data = plan.aggregation.result(window.of)
    return WindowResult(made, lane, key, start, end, revision, data, window.sent)


def after(window: Opened, result: WindowResult, plan: WindowPlan) -> Opened:
    """The window once its result is told: kept for corrections until it expires."""
    expires = plan.timing.expires(window.end)
    return window._replace(closes=expires, told=True, sent=(result.id,))
