"""The operations that aggregates are made of, each a few lines.

Every one has the two steps of adding: ``read`` takes from a payload what counts, checked, and
``add`` puts that to a state and gives another state. States are values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from acemq_amqp.errors import MessageError
from acemq_amqp.eventlog.windows.numbers import (
    Number,
    Sum,
    Unfit,
    before,
    number,
    plain_number,
    read,
    written,
)

Extract: TypeAlias = Callable[[Any], Any]


class Aggregating(Protocol):
    """What a window is filled with."""

    @property
    def can_merge(self) -> bool:
        """Whether two states can be made one, which sessions need."""

    def initial(self) -> Any:
        """The state of a window without events."""

    def read(self, payload: Any) -> Any:
        """What a payload adds.

        :raises MessageError: one of the user's functions failed, or gave what cannot be added
        """

    def add(self, state: Any, value: Any) -> Any:
        """The state with one event more.

        :raises MessageError: the user's function failed, or gave what cannot be kept
        """

    def merge(self, one: Any, other: Any) -> Any:
        """The state of both.

        :raises MessageError: as :meth:`add`
        """

    def result(self, state: Any) -> Any:
        """What the window came to: a payload."""

    def dump(self, state: Any) -> Any:
        """The state as JSON has it."""

    def load(self, kept: Any) -> Any:
        """The state that :meth:`dump` gave."""

    def shape(self) -> Any:
        """Names and operations, as JSON has them."""


class Count:
    """How many events; with a function, how many that it gives something true for."""

    can_merge = True

    def __init__(self, of: Extract | None = None) -> None:
        self._of = of

    def initial(self) -> int:
        return 0

    def read(self, payload: Any) -> int:
        return 1 if self._of is None or _given(self._of, payload, "count") else 0

    def add(self, state: int, value: int) -> int:
        return state + value

    merge = add

    def result(self, state: int) -> int:
        return state

    dump = load = result

    def shape(self) -> str:
        return "count"


class Numbers:
    """What operations on numbers have in common: how one is read from a payload."""

    can_merge = True

    def __init__(self, name: str, of: Extract) -> None:
        self._name, self._of = name, of

    def read(self, payload: Any) -> Number:
        value = _given(self._of, payload, self._name)
        try:
            return number(value)
        except Unfit as fault:
            raise MessageError(
                f"acemq: the {self._name} of a window was given a value {fault}: the message "
                "counts in no window. Mend its publisher, or filter() such messages out before"
            ) from None

    def shape(self) -> str:
        return self._name


class Total(Numbers):
    """The sum."""

    def initial(self) -> Sum:
        return Sum()

    def add(self, state: Sum, value: Number) -> Sum:
        return state.plus(value)

    def merge(self, one: Sum, other: Sum) -> Sum:
        return one.joined(other)

    def result(self, state: Sum) -> Number | str:
        return plain_number(state.told())

    def dump(self, state: Sum) -> Any:
        return state.written()

    def load(self, kept: Any) -> Sum:
        return Sum.read(kept)


class Mean(Numbers):
    """The sum, divided by how many there were."""

    def initial(self) -> tuple[int, Sum]:
        return 0, Sum()

    def add(self, state: tuple[int, Sum], value: Number) -> tuple[int, Sum]:
        return state[0] + 1, state[1].plus(value)

    def merge(self, one: tuple[int, Sum], other: tuple[int, Sum]) -> tuple[int, Sum]:
        return one[0] + other[0], one[1].joined(other[1])

    def result(self, state: tuple[int, Sum]) -> Number | str | None:
        count, total = state
        return plain_number(total.mean(count)) if count else None

    def dump(self, state: tuple[int, Sum]) -> Any:
        return [state[0], state[1].written()]

    def load(self, kept: Any) -> tuple[int, Sum]:
        return kept[0], Sum.read(kept[1])


class Extreme(Numbers):
    """The smallest, or the largest."""

    def __init__(self, name: str, of: Extract, *, largest: bool) -> None:
        super().__init__(name, of)
        self._largest = largest

    def initial(self) -> Number | None:
        return None

    def add(self, state: Number | None, value: Number) -> Number:
        if state is None or before(state, value) is self._largest:
            return value
        return state

    def merge(self, one: Number | None, other: Number | None) -> Number | None:
        return one if other is None else self.add(one, other)

    def result(self, state: Number | None) -> Number | str | None:
        return None if state is None else plain_number(state)

    def dump(self, state: Number | None) -> Any:
        return written(state)

    def load(self, kept: Any) -> Number | None:
        value: Number | None = read(kept)
        return value


def _given(of: Extract, payload: Any, name: str) -> Any:
    try:
        return of(payload)
    except Exception as error:
        raise MessageError(
            f"acemq: the {name} of a window could not read a payload ({type(error).__name__}: "
            f"{error}): the message counts in no window. Its function gets the payload itself"
        ) from error
