"""Opening a connection in the blocking flavour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from acemq_amqp.blocking.connection import Connection
from acemq_amqp.codec import Codec
from acemq_amqp.core import connection as core
from acemq_amqp.core.observer import Observer
from acemq_amqp.core.options import Options, checked_options
from acemq_amqp.core.ports import Transport, Work
from acemq_amqp.durations import Duration
from acemq_amqp.flavours.threads import ThreadWork, drive
from acemq_amqp.retry import RetryPolicy
from acemq_amqp.security import Security

_MIB = 1024 * 1024
Interceptors = Callable[..., Any] | Sequence[Callable[..., Any]]


def connect(
    url: str | Sequence[str],
    *,
    codec: Codec | None = None,
    origin: str | None = None,
    retry: RetryPolicy | None = None,
    prefetch: int = 20,
    max_outstanding: int = 1000,
    max_outstanding_bytes: int = 64 * _MIB,
    max_message_size: int | None = None,
    timeout: Duration = 10.0,
    retry_unknown: bool = True,
    connect_timeout: Duration = 30.0,
    fail_fast: bool = False,
    security: Security | None = None,
    on_publish: Interceptors = (),
    on_consume: Interceptors = (),
    observer: Observer | None = None,
) -> Connection:
    """Opens a connection that comes back by itself after every loss.

    Use it in a ``with``, or close it. Until ``connect_timeout`` the first connection is
    tried again with growing waits; a wrong login or vhost, TLS that cannot work, and hosts
    that no name service knows are told at once.

    :param url: ``amqp://``, ``amqps://`` or ``memory://``; or several brokers, tried in turn
    :param codec: of publishers and consumers that name no other; JSON by default
    :param origin: ``service@host`` written into every message; ``acemq@{hostname}`` by default
    :param retry: of consumers that name no other; by default a failed message is dead-lettered
    :param prefetch: unsettled deliveries of a consumer at most
    :param max_outstanding: unconfirmed messages at most; a further send waits
    :param max_outstanding_bytes: unconfirmed bytes at most; a larger message goes alone
    :param max_message_size: bytes of a body; by default what the broker's version takes
    :param timeout: seconds a send or a call to the broker may take
    :param retry_unknown: send again, with the same id, what may or may not have been stored
    :param connect_timeout: seconds for the first connection
    :param fail_fast: raise after every address failed once
    :param security: TLS settings for ``amqps://``, and where the login is read from
    :param on_publish: interceptors of every publication: ``Publication -> Publication | None``
    :param on_consume: wrappers of every handler: ``handler -> handler``, outermost first
    :param observer: sees counts and durations, see :class:`Observer`
    :raises ConfigurationError: at once, for options that cannot work
    :raises AuthenticationRefused: wrong login or vhost
    :raises TlsFailed: an untrusted broker, or TLS on one side only
    :raises UnknownHost: no name service knows any of the hosts
    :raises CannotConnect: no broker in time
    """
    options = checked_options(
        url,
        codec=codec,
        origin=origin,
        retry=retry,
        prefetch=prefetch,
        max_outstanding=max_outstanding,
        max_outstanding_bytes=max_outstanding_bytes,
        max_message_size=max_message_size,
        timeout=timeout,
        retry_unknown=retry_unknown,
        connect_timeout=connect_timeout,
        fail_fast=fail_fast,
        security=security,
        on_publish=on_publish,
        on_consume=on_consume,
        observer=observer,
    )
    work = ThreadWork()
    connection = core.Connection(work, _transport(options, work), options)
    drive(connection.establish())
    return Connection(connection)


def _transport(options: Options, work: Work) -> Transport:
    if options.in_memory:
        from acemq_amqp.transports.memory import MemoryTransport

        return MemoryTransport(work)
    from acemq_amqp.transports.pika import PikaTransport

    return PikaTransport(options.security)
