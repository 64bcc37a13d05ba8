"""A query's shape: what must stay the same for its windows to go on where they were.

It holds kinds, numbers, names, the sink and the user's version, and not what functions do: who
changes these in a way that matters changes the version.
"""

from __future__ import annotations

import json

from acemq_amqp.eventlog.windows.operations import Aggregating
from acemq_amqp.eventlog.windows.operators import Pipeline
from acemq_amqp.eventlog.windows.timing import Timing
from acemq_amqp.eventlog.windows.values import Kind


def shape_of(
    source: str,
    pipeline: Pipeline,
    kind: Kind,
    timing: Timing,
    aggregation: Aggregating,
    after: Pipeline,
    sink: str,
    version: str | int = "",
) -> str:
    """The shape as text: the same text for the same shape, for ``LogStore.register``.

    :param source: name of the log that is read
    :param after: steps that results go through before the sink
    :param sink: where results go, spelled by kind and name: ``log totals``, ``foreach``
    """
    parts = {
        "source": source,
        "before": pipeline.shape(),
        "kind": kind.shape(),
        "timing": timing.shape(),
        "aggregates": aggregation.shape(),
        "after": after.shape(),
        "sink": sink,
        "version": str(version),
    }
    return json.dumps(parts, sort_keys=True, separators=(",", ":"))
