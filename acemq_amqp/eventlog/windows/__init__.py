"""Windows over a log, as values and decisions: nothing here waits, reads or writes.

A cycle of a query goes: :class:`Pipeline` makes of each message the pieces that count;
:func:`fold_events` puts them into the windows that the store has of their keys; :func:`due` says
what to ask the store for that is ripe by then; :func:`closed` says what to write. Then all of it
is committed at once. A flush of quiet windows is the same with :func:`advanced` in the place of
events.
"""

from acemq_amqp.eventlog.windows.aggregates import (
    Aggregation,
    avg_of,
    count_of,
    fold,
    max_of,
    min_of,
    reduction,
    sum_of,
)
from acemq_amqp.eventlog.windows.calendar import Calendar
from acemq_amqp.eventlog.windows.closing import advanced, closed, due, forgettable
from acemq_amqp.eventlog.windows.definition import Verb, WindowDefinition, defined
from acemq_amqp.eventlog.windows.folding import fold_events
from acemq_amqp.eventlog.windows.ids import window_id
from acemq_amqp.eventlog.windows.kinds import Session, Sliding, Tumbling
from acemq_amqp.eventlog.windows.operators import Context, Gated, Operator, Pipeline
from acemq_amqp.eventlog.windows.progress import Progress
from acemq_amqp.eventlog.windows.shape import shape_of
from acemq_amqp.eventlog.windows.timing import EventTime, ProcessingTime, Timing
from acemq_amqp.eventlog.windows.values import (
    Closed,
    Counts,
    Event,
    Folded,
    Kind,
    WindowPlan,
    WindowResult,
    check_fit,
)

__all__ = [
    "Aggregation",
    "Calendar",
    "Closed",
    "Context",
    "Counts",
    "Event",
    "EventTime",
    "Folded",
    "Gated",
    "Kind",
    "Operator",
    "Pipeline",
    "ProcessingTime",
    "Progress",
    "Session",
    "Sliding",
    "Timing",
    "Tumbling",
    "Verb",
    "WindowDefinition",
    "WindowPlan",
    "WindowResult",
    "advanced",
    "avg_of",
    "check_fit",
    "closed",
    "count_of",
    "defined",
    "due",
    "fold",
    "fold_events",
    "forgettable",
    "max_of",
    "min_of",
    "reduction",
    "shape_of",
    "sum_of",
    "window_id",
]
