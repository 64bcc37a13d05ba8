"""What is made of the events of a window: aggregates by name, or one reduction.

Where the name is ``count``, ``sum``, ``min``, ``max`` or ``avg``, it says the operation; under any
other name stands ``sum_of(f)`` and the like, or ``fold(f, initial)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog.choices import unknown
from acemq_amqp.eventlog.windows.folds import Fold
from acemq_amqp.eventlog.windows.operations import (
    Aggregating,
    Count,
    Extract,
    Extreme,
    Mean,
    Total,
)
from acemq_amqp.eventlog.windows.plain import plain

State: TypeAlias = tuple[Any, ...]


def count_of(of: Extract | None = None) -> Count:
    """Counts the events that ``of`` gives something true for; every event without it."""
    return Count(None if of is None else plain(of, "count_of()"))


def sum_of(of: Extract) -> Total:
    """Adds up the numbers that ``of`` gives, exactly: a sum is rounded once, when it is told.

    A float among them makes it a float. Decimals come out as their text, as most codecs have no
    Decimal.
    """
    return Total("sum", plain(of, "sum_of()"))


def min_of(of: Extract) -> Extreme:
    """The smallest of the numbers that ``of`` gives."""
    return Extreme("min", plain(of, "min_of()"), largest=False)


def max_of(of: Extract) -> Extreme:
    """The largest of the numbers that ``of`` gives."""
    return Extreme("max", plain(of, "max_of()"), largest=True)


def avg_of(of: Extract) -> Mean:
    """The mean of the numbers that ``of`` gives: a float, or the text of a Decimal."""
    return Mean("avg", plain(of, "avg_of()"))


def fold(
    function: Callable[[Any, Any], Any],
    initial: Any = None,
    merge: Callable[[Any, Any], Any] | None = None,
) -> Fold:
    """Any other aggregate: ``function(kept, payload)`` gives what is kept next.

    :param initial: where each window begins: as all that is kept, something that JSON has
    :param merge: makes one of what two windows kept, the earlier first; sessions need it
    :raises ConfigurationError: a function that is none, or that is a coroutine function, or an
        initial that JSON has no spelling for
    """
    return Fold(function, initial, merge)


def reduction(
    function: Callable[[Any, Any], Any],
    initial: Any = None,
    merge: Callable[[Any, Any], Any] | None = None,
) -> Fold:
    """As :func:`fold`, for a window whose data is that one value."""
    return Fold(function, initial, merge, name="reduce")


def _counting(_: Extract) -> Count:
    """Under the name ``count`` every event counts one, whatever its function would give."""
    return Count()


_NAMED: Final[Mapping[str, Callable[[Extract], Aggregating]]] = {
    "count": _counting,
    "sum": sum_of,
    "min": min_of,
    "max": max_of,
    "avg": avg_of,
}


class Aggregation:
    """Aggregates by name: a window's data is a dict of exactly these names.

    :param named: for ``count``, ``sum``, ``min``, ``max`` and ``avg`` a function of the payload;
        for another name ``sum_of(f)`` and the like, or ``fold(f, initial)``
    :raises ConfigurationError: nothing named, a plain function under a name that is no operation,
        an operation under the name of another, or a coroutine function
    """

    def __init__(self, named: Mapping[str, Any]) -> None:
        if not isinstance(named, Mapping) or not named:
            raise ConfigurationError(
                "acemq: aggregate() wants a dict of names, such as {'sum': lambda sale: "
                "sale['amount']}"
            )
        self._parts = {name: _part(name, given) for name, given in named.items()}
        self._reads = [part.read for part in self._parts.values()]
        self._adds = [part.add for part in self._parts.values()]
        self.can_merge = all(part.can_merge for part in self._parts.values())

    def initial(self) -> State:
        return tuple(part.initial() for part in self._parts.values())

    def read(self, payload: Any) -> Sequence[Any]:
        return [read(payload) for read in self._reads]

    def add(self, state: State, value: Sequence[Any]) -> State:
        return tuple([add(of, one) for add, of, one in zip(self._adds, state, value, strict=True)])

    def merge(self, one: State, other: State) -> State:
        parts = zip(self._parts.values(), one, other, strict=True)
        return tuple(part.merge(mine, its) for part, mine, its in parts)

    def result(self, state: State) -> dict[str, Any]:
        named = zip(self._parts.items(), state, strict=True)
        return {name: part.result(of) for (name, part), of in named}

    def dump(self, state: State) -> dict[str, Any]:
        named = zip(self._parts.items(), state, strict=True)
        return {name: part.dump(of) for (name, part), of in named}

    def load(self, kept: Mapping[str, Any]) -> State:
        return tuple(part.load(kept[name]) for name, part in self._parts.items())

    def shape(self) -> dict[str, Any]:
        return {name: part.shape() for name, part in self._parts.items()}


def _part(name: object, given: Any) -> Aggregating:
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"acemq: an aggregate is named {name!r}: give a text")
    if isinstance(given, Count | Extreme | Mean | Total | Fold):
        if name in _NAMED and given.shape() != name:
            raise ConfigurationError(
                f"acemq: the aggregate {name!r} is a {given.shape()}: give it another name"
            )
        return given
    if name not in _NAMED:
        raise ConfigurationError(
            f"{unknown(name, _NAMED, 'aggregate()')}. Under a name of your own give sum_of(f), "
            "min_of(f), max_of(f), avg_of(f), count_of(f) or fold(f, initial)"
        )
    return _NAMED[name](plain(given, f"the aggregate {name!r}"))
