"""Whether a binding wants a message: by words of its key, or by its headers.

Both are RabbitMQ's, including what surprises: the empty key has no words, an empty
word is one, headers are compared with their types but for text and bytes, which are one
to it, and a header bound to nothing asks for its presence only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from acemq_amqp.transports.memory.refusals import refused

HeaderMatch: TypeAlias = Callable[[Mapping[str, Any]], bool]

_MODES = ("all", "any", "all-with-x", "any-with-x")


def topic_matches(pattern: str, key: str) -> bool:
    """``*`` stands for one word, ``#`` for any number of them; words are parted by dots."""
    words = _words(key)
    # reached[n]: the pattern so far matches the first n words
    reached = [True] + [False] * len(words)
    for part in _words(pattern):
        if part == "#":
            first = reached.index(True) if True in reached else len(reached)
            reached = [n >= first for n in range(len(reached))]
        else:
            reached = [False] + [reached[n] and part in ("*", word) for n, word in enumerate(words)]
    return reached[-1]


def _words(key: str) -> list[str]:
    return key.split(".") if key else []


def header_match(arguments: Mapping[str, Any]) -> HeaderMatch:
    """What a binding to a headers exchange asks for.

    :raises DeclarationMismatch: an ``x-match`` that RabbitMQ does not know (406)
    """
    mode = arguments.get("x-match", "all")
    if mode not in _MODES:
        raise refused(
            406,
            f"PRECONDITION_FAILED - Invalid x-match field value {mode!r}; "
            "expected all, any, all-with-x, or any-with-x",
        )
    with_x = mode.endswith("-with-x")
    wanted = {
        name: value
        for name, value in arguments.items()
        if name != "x-match" and (with_x or not name.startswith("x-"))
    }
    every = mode.startswith("all")

    def match(headers: Mapping[str, Any]) -> bool:
        found = (_has(headers, name, value) for name, value in wanted.items())
        return all(found) if every else any(found)

    return match


def _has(headers: Mapping[str, Any], name: str, wanted: Any) -> bool:
    if name not in headers:
        return False
    return wanted is None or _typed(headers[name]) == _typed(wanted)


def _typed(value: Any) -> tuple[type, Any]:
    """What RabbitMQ 4 compares. (Before 4.0, 1 equals 1.0.)"""
    return (bytes, value.encode()) if isinstance(value, str) else (type(value), value)
