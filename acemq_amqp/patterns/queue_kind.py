"""What kind of queue a queue is, found out over AMQP alone.

A passive look-up tells existence only. An equal declare tells more: the broker refuses it and
names the first argument that differs, with its value. So a classic queue is declared again and
again, each time with what was learned, until the declare is equal or the type is named. Nothing is
created by that, and nothing changed. Where the names are so long that the broker's words are cut
off, the kind stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from acemq_amqp.core.connection import Connection
from acemq_amqp.errors import ConfigurationError, NotFound
from acemq_amqp.topology import QueueDeclaration, Topology

Kind = Literal["classic", "quorum", "stream", "unknown"]

_TYPE: Final = "x-queue-type"
#: Every argument that RabbitMQ compares is fewer than so many.
_MOST_ARGUMENTS: Final = 30
#: Kept for queues that are neither quorum nor stream.
_CLASSIC_ONLY: Final = frozenset({"durable", "auto_delete", "exclusive"})
_DIFFERENCE: Final = re.compile(
    r"inequivalent arg '(?P<name>[^']+)' .*? but current is "
    r"(?:(?P<none>none)|the value '(?P<value>.*?)' of type '(?P<type>\w+)'|'(?P<word>.*?)')",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class QueueKind:
    """A queue's type, and its arguments where it is classic."""

    name: Kind
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def keeps_what_is_given_back(self) -> bool:
        """Whether a message may be got and given back any number of times, and is still there.

        A quorum queue counts each time, and drops the message after its limit (20 on RabbitMQ 4);
        a stream cannot be got from; a queue with a length limit may have filled up meanwhile.
        """
        limited = any(name.startswith("x-max-length") for name in self.arguments)
        return self.name == "classic" and not limited


async def kind_of(connection: Connection, queue: str) -> QueueKind:
    """What kind of queue it is; ``unknown`` where the broker does not tell this login.

    :raises NotFound: there is no such queue
    """
    learned: dict[str, Any] = {_TYPE: "classic"}
    for _ in range(_MOST_ARGUMENTS):
        try:
            probe = Topology(queues=(QueueDeclaration(queue, arguments=learned),))
        except ConfigurationError:  # a name that nobody may declare
            break
        differences = await connection.verify(probe)
        problem = differences[0].problem if differences else ""
        if problem == "missing":
            raise NotFound(f"acemq: there is no queue {queue!r}; check the name", code=404)
        found = kind_told_by(problem, learned)
        if found is not None:
            return found
    return QueueKind("unknown")


def kind_told_by(problem: str, learned: dict[str, Any]) -> QueueKind | None:
    """What the broker's words tell; None where they teach an argument to try again with.

    :param problem: what it said of the equal declare; empty where that was equal
    :param learned: the arguments so far; one more is put in
    """
    if not problem:
        return QueueKind("classic", {name: learned[name] for name in learned if name != _TYPE})
    difference = _DIFFERENCE.search(problem)
    if difference is None:  # such as one that is exclusive
        return QueueKind("unknown")
    name = difference["name"]
    if name in _CLASSIC_ONLY:
        return QueueKind("classic", {name: difference["word"]})
    if name == _TYPE:
        return _named(difference["word"] or difference["value"] or "", learned)
    if difference["type"] is None or name in learned:
        return QueueKind("unknown")
    value = _value(difference["value"], difference["type"])
    if value is None:
        return QueueKind("unknown")
    learned[name] = value
    return None


def _named(word: str, learned: dict[str, Any]) -> QueueKind | None:
    if word in ("quorum", "stream"):
        # one of its words, as was looked up just now
        return QueueKind(word)  # type: ignore[arg-type]
    if _TYPE in learned and not word:  # an older broker keeps no type where none was given
        del learned[_TYPE]
        return None
    return QueueKind("unknown")


def _value(text: str, kind: str) -> Any:
    if kind == "longstr":
        return text
    if kind == "bool":
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return None
