"""What the wrappers of handlers are given, checked when they are built."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from acemq_amqp.errors import ConfigurationError, kind_of
from acemq_amqp.flavours.calls import checked_callable


def checked_handler(handler: Any, *given: str) -> Callable[..., Any]:
    """A function that can be called with so many arguments.

    :raises ConfigurationError: it cannot
    """
    function = checked_callable(handler)
    try:
        inspect.signature(function).bind(*given)
    except ValueError:  # a builtin that does not tell
        return function
    except TypeError as failure:
        count = f"{len(given)} argument" + "s" * (len(given) > 1)
        raise ConfigurationError(
            f"acemq: a handler is called with {count} here, ({', '.join(given)}), and "
            f"{getattr(function, '__qualname__', function)!r} cannot be: {failure}"
        ) from None
    return function


def checked_identity(key: Any, scope: Any) -> None:
    """What tells messages apart.

    :raises ConfigurationError: ``key`` is no function, or ``scope`` no text
    """
    if key is not None and not callable(key):
        raise ConfigurationError(
            f"acemq: key= wants a function that takes a message and gives text, got {kind_of(key)}"
        )
    if not isinstance(scope, str):
        raise ConfigurationError(f"acemq: scope= wants text, got {kind_of(scope)}")
