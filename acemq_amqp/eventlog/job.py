"""A query as it was built: what is done to events, how they are cut into windows, where they go.

It is said word by word, and checked as it is said; nothing runs, and nothing is looked up, before
``run``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog.selection import Selection
from acemq_amqp.eventlog.sinks import Sink, exchange_sink, sink_of
from acemq_amqp.eventlog.windows.aggregates import Aggregation, reduction
from acemq_amqp.eventlog.windows.definition import Verb, WindowDefinition, defined
from acemq_amqp.eventlog.windows.operations import Aggregating
from acemq_amqp.eventlog.windows.operators import Operator, OperatorKind, Pipeline
from acemq_amqp.eventlog.windows.plain import plain
from acemq_amqp.eventlog.windows.shape import shape_of
from acemq_amqp.eventlog.windows.timing import EventTime


@dataclass(frozen=True, slots=True)
class Job:
    """What a query does, complete.

    :ivar before: what events go through; ``after``: what results go through
    :ivar window: how events are cut; None where each is a result
    """

    source: Selection
    before: Pipeline
    window: WindowDefinition | None
    aggregation: Aggregating | None
    after: Pipeline
    sink: Sink | None
    late: Sink | None
    each: Callable[..., Any] | None
    writes: Callable[..., Any] | None
    shape: str = field(repr=False)


class QueryWords:
    """The words of a query. Each changes it in place and returns it.

    :param source: the log that is read
    """

    def __init__(self, source: Selection) -> None:
        self._source = source
        self._before: list[Operator] = []
        self._after: list[Operator] = []
        self._window: WindowDefinition | None = None
        self._aggregation: Aggregating | None = None
        self._sink: Sink | None = None
        self._late: Sink | None = None
        self._each: Callable[..., Any] | None = None
        self._writes: Callable[..., Any] | None = None

    # ------------------------------------------------------------ what is done to each

    def map(self, function: Callable[..., Any]) -> Self:
        """Another payload for each; behind ``aggregate`` for each result."""
        return self._operator("map", function)

    def filter(self, function: Callable[..., Any]) -> Self:
        """Only those for which the function gives something true."""
        return self._operator("filter", function)

    def flat_map(self, function: Callable[..., Any]) -> Self:
        """A list of payloads for each, empty for none."""
        return self._operator("flat_map", function)

    def key_by(self, function: Callable[..., Any]) -> Self:
        """Windows by this key, within a lane; without it the lane is the key."""
        if self._window is not None:
            raise ConfigurationError("acemq: key_by() comes before the window that it is for")
        return self._operator("key_by", function)

    def gate(self, function: Callable[..., Any]) -> Self:
        """Holds a message and all behind it back until the function gives something true."""
        if self._window is not None:
            raise ConfigurationError("acemq: gate() comes before the window")
        return self._operator("gate", function)

    def _operator(self, kind: OperatorKind, function: Callable[..., Any]) -> Self:
        steps = self._before if self._window is None else self._after
        if self._window is not None and self._aggregation is None:
            raise ConfigurationError(
                f"acemq: {kind}() stands between a window and its aggregate(): put it before the "
                "window, for events, or behind aggregate(), for results"
            )
        steps.append(Operator(kind, function))
        return self

    # ------------------------------------------------------------ windows

    def window_tumbling(self, **options: Any) -> Self:
        """Windows of one size side by side. ``seconds`` or ``size``, and :func:`defined`."""
        return self._cut("tumbling", options)

    def window_sliding(self, **options: Any) -> Self:
        """Windows of one size that begin every so often: ``size`` and ``every``."""
        return self._cut("sliding", options)

    def window_session(self, **options: Any) -> Self:
        """Windows that last while events come less than a ``gap`` apart."""
        return self._cut("session", options)

    def window_cron(self, **options: Any) -> Self:
        """Windows from tick to tick of a ``cron`` expression, in a ``zone``."""
        return self._cut("cron", options)

    def _cut(self, verb: Verb, options: Mapping[str, Any]) -> Self:
        if self._window is not None:
            raise ConfigurationError(
                "acemq: a query has one window: send its results to a log, and read that"
            )
        self._window = defined(verb, options)
        return self

    def aggregate(self, named: Mapping[str, Any]) -> Self:
        """What a window knows: ``count``, ``sum``, ``min``, ``max``, ``avg``, and your own names.

        :raises ConfigurationError: no window before it, or a name that means nothing
        """
        return self._fill(Aggregation(named))

    def reduce(
        self,
        function: Callable[[Any, Any], Any],
        initial: Any = None,
        *,
        merge: Callable[[Any, Any], Any] | None = None,
    ) -> Self:
        """What a window knows, as one value: ``function(kept, payload)`` gives what is kept.

        :param merge: makes one of two windows' values; sessions need it
        """
        return self._fill(reduction(function, initial, merge))

    def _fill(self, aggregation: Aggregating) -> Self:
        if self._window is None:
            raise ConfigurationError("acemq: aggregate() and reduce() come after a window")
        if self._aggregation is not None:
            raise ConfigurationError("acemq: a window was given two aggregates: give one")
        if self._window.kind.merges and not aggregation.can_merge:
            raise ConfigurationError(
                "acemq: sessions merge, and so must what they know: give fold() or reduce() a "
                "merge= function"
            )
        self._aggregation = aggregation
        return self

    # ------------------------------------------------------------ where it goes

    def to(self, target: Any) -> Self:
        """Sends results to a log, in the lane of their key, or to a queue by name.

        They are committed with the state and the position that they come from. A queue must be
        there when the query is run.
        """
        return self._send(sink_of(target))

    def to_exchange(self, exchange: str, routing_key: str = "") -> Self:
        """Sends results to an exchange, which must be there; otherwise as :meth:`to`."""
        return self._send(exchange_sink(exchange, routing_key))

    def _send(self, sink: Sink) -> Self:
        if self._sink is not None:
            raise ConfigurationError(
                f"acemq: a query's results go to one place, and that is {self._sink.shape!r}"
            )
        self._sink = sink
        return self

    def late_to(self, target: Any) -> Self:
        """Sends late events there, where the window says ``late="side"``."""
        _refuse_second(self._late, "late_to()")
        self._late = sink_of(target)
        return self

    def foreach(self, function: Callable[..., Any]) -> Self:
        """Calls a function with each result, before its commit: at least once for each.

        What it raises is tried again with the whole cycle.
        """
        _refuse_second(self._each, "foreach()")
        self._each = function
        return self

    def write(self, function: Callable[[Any, Any], Any]) -> Self:
        """Calls ``function(tx, results)`` in the transaction that commits them: exactly once.

        :param function: a plain one; ``tx`` is the database's connection, neither to be committed
            nor closed
        """
        _refuse_second(self._writes, "write()")
        self._writes = plain(function, "write()")
        return self

    # ------------------------------------------------------------ all of it

    def job(self, version: str | int = "") -> Job:
        """The query.

        :raises ConfigurationError: something is missing, or leads nowhere
        """
        if self._window is not None and self._aggregation is None:
            raise ConfigurationError("acemq: a window wants an aggregate() or a reduce()")
        if self._sink is None and self._each is None and self._writes is None:
            raise ConfigurationError(
                "acemq: a query's results go nowhere: say to(...), foreach(...) or write(...)"
            )
        self._check_late()
        before, after = Pipeline(self._before), Pipeline(self._after)
        return Job(
            self._source,
            before,
            self._window,
            self._aggregation,
            after,
            self._sink,
            self._late,
            self._each,
            self._writes,
            self._shape(before, after, version),
        )

    def _check_late(self) -> None:
        timing = None if self._window is None else self._window.timing
        wanted = isinstance(timing, EventTime) and timing.late == "side"
        if wanted != (self._late is not None):
            raise ConfigurationError(
                "acemq: late='side' and late_to(...) belong together: one was given alone"
            )

    def _shape(self, before: Pipeline, after: Pipeline, version: str | int) -> str:
        sink, source = self._sinks(), self._source.name
        window = self._window
        if window is None or self._aggregation is None:
            parts = {"source": source, "before": before.shape(), "sink": sink}
            return json.dumps({**parts, "version": str(version)}, sort_keys=True)
        kind, timing = window.kind, window.timing
        return shape_of(source, before, kind, timing, self._aggregation, after, sink, version)

    def _sinks(self) -> str:
        """Where results go, and late events."""
        sinks = [each.shape for each in (self._sink, self._late) if each is not None]
        return ", late ".join(sinks) or "none"


def _refuse_second(first: object, word: str) -> None:
    """
    :raises ConfigurationError: a word was said before, and would take the first one's place
    """
    if first is not None:
        raise ConfigurationError(
            f"acemq: a query was given {word} twice, and the first would be lost: give one that "
            "does both"
        )
