"""What a caller may ask of a connection or consumer, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from acemq_amqp.codec import Codec
from acemq_amqp.errors import ConfigurationError, kind_of
from acemq_amqp.fieldtable import encode_table
from acemq_amqp.retry import RetryPolicy
from acemq_amqp.topology import Topology

#: A prefetch travels in 16 bits.
_LARGEST_PREFETCH = 65535


def whole(value: Any, what: str, *, least: int = 1, most: int | None = None) -> int:
    """A whole number in its range.

    :raises ConfigurationError: it is not
    """
    number = isinstance(value, int) and not isinstance(value, bool)
    if not number or value < least or (most is not None and value > most):
        span = f"{least} or more" if most is None else f"from {least} to {most}"
        raise ConfigurationError(f"acemq: {what} is a whole number {span}, got {value!r}")
    result: int = value
    return result


def flag(value: Any, what: str) -> bool:
    """True or False, and nothing that only passes for one.

    :raises ConfigurationError: something else
    """
    if not isinstance(value, bool):
        raise ConfigurationError(f"acemq: {what}= wants True or False, got {value!r}")
    return value


def prefetch_and_concurrency(prefetch: Any, concurrency: Any) -> tuple[int, int]:
    """Both, where they go together.

    :raises ConfigurationError: out of range, or more workers than deliveries they could have
    """
    places = whole(prefetch, "prefetch", most=_LARGEST_PREFETCH)
    workers = whole(concurrency, "concurrency")
    if workers > places:
        raise ConfigurationError(
            f"acemq: a concurrency of {workers} needs a prefetch of at least {workers}, got "
            f"{places}; raise prefetch or lower concurrency"
        )
    return places, workers


def checked_codec(codec: Any) -> Codec:
    """A codec.

    :raises ConfigurationError: it has no ``encode`` and ``decode``
    """
    needed = ("content_type", "encode", "decode", "can_decode")
    if isinstance(codec, type) or not all(hasattr(codec, name) for name in needed):
        raise ConfigurationError(
            f"acemq: codec= wants an object with content_type, encode, decode and can_decode, got "
            f"{_told(codec)}; for example acemq_amqp.codec.JsonCodec()"
        )
    result: Codec = codec
    return result


def checked_retry(retry: Any) -> RetryPolicy:
    """A retry policy.

    :raises ConfigurationError: something else
    """
    if not isinstance(retry, RetryPolicy):
        raise ConfigurationError(
            f"acemq: retry= wants a RetryPolicy, got {_told(retry)}; make one with "
            "exponential_retry(), fixed_retry() or no_retry()"
        )
    return retry


def checked_arguments(arguments: Any) -> Mapping[str, Any]:
    """Consumer arguments.

    :raises ConfigurationError: not a mapping, or a value that cannot travel
    """
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise ConfigurationError(f"acemq: args= wants a mapping, got {_told(arguments)}")
    encode_table(arguments, "consumer argument")
    return dict(arguments)


def checked_topology(topology: Any) -> Topology:
    """A topology.

    :raises ConfigurationError: something else
    """
    if not isinstance(topology, Topology):
        raise ConfigurationError(
            f"acemq: a Topology is wanted, got {_told(topology)}; start with Topology().queue(...)"
        )
    return topology


def several(functions: Any, what: str) -> tuple[Any, ...]:
    """Interceptors: one, or several in order.

    :raises ConfigurationError: one of them is not callable
    """
    listed = tuple(functions) if isinstance(functions, Iterable) else (functions,)
    for function in listed:
        if not callable(function):
            raise ConfigurationError(f"acemq: {what}= wants functions, got {_told(function)}")
    return listed


def _told(value: Any) -> str:
    return value.__name__ + " itself" if isinstance(value, type) else kind_of(value)
