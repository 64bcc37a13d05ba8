"""Options by name: an unknown one is refused with the name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final

from acemq_amqp.errors import ConfigurationError

#: Names that an error tells, where none is near; more would hide what it says.
_TOLD: Final = 10


def unknown(name: object, known: Iterable[str], what: str) -> ConfigurationError:
    """The error of a name that means nothing."""
    names = sorted(known)
    near = get_close_matches(str(name), names, 1)
    more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD + 2 else ""
    told = ", ".join(names[:_TOLD] if more else names)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {told}{more}"
    return ConfigurationError(f"acemq: {what} knows no {name!r}: {hint}")


def checked(options: object, known: Iterable[str], what: str) -> dict[str, Any]:
    """Options as a dict of their own.

    :raises ConfigurationError: not a mapping, or a name that is not known
    """
    if not isinstance(options, Mapping):
        raise ConfigurationError(
            f"acemq: {what} wants its options as a dict, not a {type(options).__name__}"
        )
    names = set(known)
    for name in options:
        if name not in names:
            raise unknown(name, names, what)
    return dict(options)


def positive(value: object, what: str) -> int:
    """A whole number of 1 or more.

    :raises ConfigurationError: anything else
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigurationError(f"acemq: {what} is {value!r}: give a whole number of 1 or more")
    return value
