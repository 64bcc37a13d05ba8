"""Any aggregate that a user can write: a function from what is kept and a payload to what is kept.

What is kept goes through JSON after every event, though it costs more than it must: so a value
that JSON has no spelling for is that message's error and not the commit's, a function that changes
what it was given harms no other window, and a restart in between changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from acemq_amqp.errors import ConfigurationError, MessageError
from acemq_amqp.eventlog.windows.plain import plain


class Fold:
    """One value a window, folded from its events in the order in which they came.

    :param function: gets what is kept and a payload, and gives what is kept next
    :param initial: where each window begins
    :param merge: makes one of what two windows kept, the earlier first; sessions need it
    :raises ConfigurationError: a function that is none, or that is a coroutine function; an
        initial that JSON has no spelling for
    """

    def __init__(
        self,
        function: Callable[[Any, Any], Any],
        initial: Any = None,
        merge: Callable[[Any, Any], Any] | None = None,
        *,
        name: str = "fold",
    ) -> None:
        self._function = plain(function, f"{name}()")
        self._merge = None if merge is None else plain(merge, f"merge of {name}()")
        self._name = name
        self.can_merge = merge is not None
        try:
            self._initial = _spelled(initial)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(
                f"acemq: the initial of {name}() cannot be kept as JSON ({error}): give numbers, "
                "texts, lists and dicts"
            ) from error

    def initial(self) -> str:
        return self._initial

    def read(self, payload: Any) -> Any:
        return payload

    def add(self, state: str, value: Any) -> str:
        return self._kept(self._function, json.loads(state), value)

    def merge(self, one: str, other: str) -> str:
        if self._merge is None:
            raise ConfigurationError(
                f"acemq: {self._name}() has no merge, and two sessions became one: give it "
                "merge=function"
            )
        return self._kept(self._merge, json.loads(one), json.loads(other))

    def result(self, state: str) -> Any:
        return json.loads(state)

    def dump(self, state: str) -> Any:
        return json.loads(state)

    def load(self, kept: Any) -> str:
        return _spelled(kept)

    def shape(self) -> str:
        return self._name

    def _kept(self, function: Callable[[Any, Any], Any], *given: Any) -> str:
        try:
            return _spelled(function(*given))
        except Exception as error:
            raise MessageError(
                f"acemq: the function of {self._name}() failed, or gave what JSON cannot keep "
                f"({type(error).__name__}: {error}): the message counts in no window"
            ) from error


def _spelled(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
