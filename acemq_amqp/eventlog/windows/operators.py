"""What happens to a payload before it is counted: map, filter, flat_map, key_by, gate.

A function gets the payload; one that wants a second argument gets the context besides. It is a
plain function, and what it raises is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from itertools import groupby
from typing import Any, Final, Literal, Protocol, TypeAlias

from acemq_amqp.errors import ConfigurationError, MessageError
from acemq_amqp.eventlog.choices import unknown
from acemq_amqp.eventlog.windows.plain import plain, takes_context

OperatorKind: TypeAlias = Literal["map", "filter", "flat_map", "key_by", "gate"]
Piece: TypeAlias = tuple[str, Any]

_KINDS: Final = ("map", "filter", "flat_map", "key_by", "gate")
_KEY_BYTES: Final = 1024


class Context(Protocol):
    """What an operator may know besides the payload: where the message stands."""

    @property
    def lane(self) -> str:
        """The message's lane; its key, until ``key_by`` gives another."""


class Gated(Exception):
    """A gate did not let a message pass: it waits, and those after it, and is not counted yet."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One step.

    :raises ConfigurationError: an unknown kind, what is no function, or a coroutine function
    """

    kind: OperatorKind
    function: Callable[..., Any]

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise unknown(self.kind, _KINDS, "a stream")
        plain(self.function, f"{self.kind}()")


class Pipeline:
    """Steps one after the other.

    :param operators: in the order in which they are applied
    :raises ConfigurationError: more than one ``key_by``, of which only the last would count
    """

    def __init__(self, operators: Iterable[Operator] = ()) -> None:
        self._operators = tuple(operators)
        if sum(each.kind == "key_by" for each in self._operators) > 1:
            raise ConfigurationError(
                "acemq: key_by() was called twice, and a window has one key: keep one of them"
            )
        self._steps = [(_STEPS[each.kind], _caller(each.function)) for each in self._operators]

    def apply(self, payload: Any, context: Context) -> Sequence[Piece]:
        """What a message counts as: (key, payload) pairs, none where it was filtered out.

        :raises Gated: a gate holds the message back, with all pieces of it
        :raises MessageError: a function gave what its step cannot use
        """
        pieces: Iterable[Piece] = ((context.lane, payload),)
        for step, call in self._steps:
            pieces = [
                made for key, value in pieces for made in step(call(value, context), key, value)
            ]
        return list(pieces)

    def shape(self) -> list[str]:
        """The kinds in their order; several of one kind in a row are as one."""
        return [kind for kind, _ in groupby(each.kind for each in self._operators)]


def _caller(function: Callable[..., Any]) -> Callable[[Any, Context], Any]:
    wants = takes_context(function)

    def call(payload: Any, context: Context) -> Any:
        given = function(payload, context) if wants else function(payload)
        if isawaitable(given):
            raise MessageError(
                "acemq: a stream's function gave something to await: pass a plain function"
            )
        return given

    return call


def _map(given: Any, key: str, value: Any) -> Iterable[Piece]:
    return ((key, given),)


def _filter(given: Any, key: str, value: Any) -> Iterable[Piece]:
    return ((key, value),) if given else ()


def _flat_map(given: Any, key: str, value: Any) -> Iterable[Piece]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise MessageError(
            f"acemq: the function of flat_map() gave a {type(given).__name__}: give a list of "
            "payloads, empty for none"
        )
    return [(key, each) for each in given]


def _key_by(given: Any, key: str, value: Any) -> Iterable[Piece]:
    return ((_key(given), value),)


def _gate(given: Any, key: str, value: Any) -> Iterable[Piece]:
    if not given:
        raise Gated
    return ((key, value),)


_STEPS: Final[Mapping[str, Callable[[Any, str, Any], Iterable[Piece]]]] = {
    "map": _map,
    "filter": _filter,
    "flat_map": _flat_map,
    "key_by": _key_by,
    "gate": _gate,
}


def _key(given: Any) -> str:
    if type(given) is int:
        return str(given)
    if not isinstance(given, str):
        raise MessageError(
            f"acemq: the function of key_by() gave a {type(given).__name__}: give a text or an int"
        )
    if len(given.encode(errors="replace")) > _KEY_BYTES or not _storable(given):
        raise MessageError(
            f"acemq: the function of key_by() gave {given[:40]!r}: give a text of at most "
            f"{_KEY_BYTES} bytes of UTF-8, without NUL"
        )
    return given


def _storable(text: str) -> bool:
    if text.isascii():
        return "\0" not in text
    return "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)
