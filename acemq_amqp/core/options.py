"""What ``connect`` may be asked for, checked before a socket is opened."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from acemq_amqp.address import Address, parse_addresses
from acemq_amqp.codec import Codec, JsonCodec
from acemq_amqp.core import checks
from acemq_amqp.core.observer import Observer
from acemq_amqp.core.outgoing import checked_name
from acemq_amqp.durations import Duration, seconds
from acemq_amqp.errors import ConfigurationError, kind_of
from acemq_amqp.retry import RetryPolicy, no_retry
from acemq_amqp.security import Security, checked_security


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options of one connection; times in seconds, sizes in bytes."""

    addresses: tuple[Address, ...]
    codec: Codec
    origin: str
    retry: RetryPolicy
    prefetch: int
    max_outstanding: int
    max_outstanding_bytes: int
    max_message_size: int | None
    timeout: float
    retry_unknown: bool
    connect_timeout: float
    fail_fast: bool
    security: Security
    on_publish: tuple[Any, ...]
    on_consume: tuple[Any, ...]
    observer: Observer | None

    @property
    def in_memory(self) -> bool:
        """Whether the broker is the one in memory."""
        return self.addresses[0].scheme == "memory"


def checked_options(
    url: str | Sequence[str],
    *,
    codec: Codec | None,
    origin: str | None,
    retry: RetryPolicy | None,
    prefetch: int,
    max_outstanding: int,
    max_outstanding_bytes: int,
    max_message_size: int | None,
    timeout: Duration,
    retry_unknown: bool,
    connect_timeout: Duration,
    fail_fast: bool,
    security: Security | None,
    on_publish: Any,
    on_consume: Any,
    observer: Observer | None,
) -> Options:
    """The options as one value.

    :raises ConfigurationError: one of them cannot work
    """
    places, _ = checks.prefetch_and_concurrency(prefetch, 1)
    addresses = parse_addresses(url)
    return Options(
        addresses,
        JsonCodec() if codec is None else checks.checked_codec(codec),
        checked_name(_default_origin() if origin is None else origin, "an origin"),
        no_retry() if retry is None else checks.checked_retry(retry),
        places,
        checks.whole(max_outstanding, "max_outstanding"),
        checks.whole(max_outstanding_bytes, "max_outstanding_bytes"),
        None if max_message_size is None else checks.whole(max_message_size, "max_message_size"),
        seconds(timeout, "timeout"),
        checks.flag(retry_unknown, "retry_unknown"),
        seconds(connect_timeout, "connect_timeout"),
        checks.flag(fail_fast, "fail_fast"),
        checked_security(security, addresses),
        checks.several(on_publish, "on_publish"),
        checks.several(on_consume, "on_consume"),
        _observer(observer),
    )


def _default_origin() -> str:
    return f"acemq@{socket.gethostname()}"


def _observer(observer: Observer | None) -> Observer | None:
    if observer is not None and not isinstance(observer, Observer):
        raise ConfigurationError(
            "acemq: observer= wants an object with count, duration and gauge; "
            f"got {kind_of(observer)}. acemq_amqp.Metrics() is one"
        )
    return observer
