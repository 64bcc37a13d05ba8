"""What a user's function must be here: a plain one, called at once, many times a second."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from acemq_amqp.errors import ConfigurationError


def plain(function: Any, what: str) -> Callable[..., Any]:
    """The function itself.

    :param what: what it is for, named in the error
    :raises ConfigurationError: it cannot be called, or it is a coroutine function
    """
    if not callable(function):
        raise ConfigurationError(
            f"acemq: {what} wants a function and got {type(function).__name__}: pass the function "
            "itself"
        )
    if _waits(function):
        raise ConfigurationError(
            f"acemq: {what} got a coroutine function, which cannot run inside a window's "
            "transaction: pass a plain function, and await what it needs before the push or in "
            "foreach()"
        )
    made: Callable[..., Any] = function
    return made


def takes_context(function: Callable[..., Any]) -> bool:
    """Whether a function wants a second argument: one without a default, so ``k=k`` is no such."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    wanted = [
        each
        for each in parameters
        if each.default is each.empty
        and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    return len(wanted) > 1


def _waits(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    called = getattr(function, "__call__", None)  # noqa: B004 - the method itself is asked
    return any(
        inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each)
        for each in (function, called)
    )
