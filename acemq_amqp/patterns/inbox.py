"""Inbox: the claim on a message is committed with the work it led to.

The handler is given an open transaction. What it writes there, the outbox records among it, and the
note that its message was handled are one commit, and the message is acknowledged after it. Killed
at any step, the effect is there once: before the commit nothing is, after it a repeat is accepted.
One text serves both sorts of handlers: a plain one's transaction never suspends, and is driven.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from importlib import import_module
from typing import Any

from acemq_amqp.ack import Ack, AckKind, accept, decision_of, in_progress
from acemq_amqp.codec import Codec
from acemq_amqp.durations import Duration
from acemq_amqp.errors import AceMQError, ConfigurationError
from acemq_amqp.flavours.calls import is_coroutine_function
from acemq_amqp.message import Message
from acemq_amqp.patterns.claim import Claim, TransactionEnded
from acemq_amqp.patterns.handlers import checked_handler, checked_identity
from acemq_amqp.patterns.idempotency import KeyOf
from acemq_amqp.patterns.results import Results
from acemq_amqp.patterns.waiting import driven

log = logging.getLogger("acemq_amqp")


class _Undone(Exception):
    """Takes an answer other than accept out of the transaction, which it undoes."""

    def __init__(self, ack: Ack) -> None:
        self.ack = ack


class _Failed(Exception):
    """Takes what a handler raised out of the transaction, so that it is told from the store's."""

    def __init__(self, failure: BaseException) -> None:
        self.failure = failure


def transactional(
    connect: Any,
    handler: Callable[[Message, Any], Any],
    *,
    key: KeyOf | None = None,
    in_progress_delay: Duration = 5.0,
    lease: Duration = 300.0,
    retention: Duration = 86400.0,
    scope: str = "",
    codec: Codec | None = None,
    max_result: int = 65536,
    table: str = "acemq_idempotency",
    dialect: str | None = None,
    create: bool = True,
) -> Callable[[Message], Any]:
    """A handler whose work and claim are one commit: the effect of each message is there once.

    ``handler(message, tx)`` works on ``tx``, a connection in an open transaction, and neither ends
    nor closes it: where it does, the message fails with :class:`TransactionEnded` and is not taken
    for handled. Accept commits, and the message is acknowledged after that; anything else, a raise
    included, undoes all of it. A repeat is accepted with the result that was kept, if any. A
    message whose transaction is open elsewhere comes back after ``in_progress_delay``, and so does
    every one while the database cannot be reached; no attempt is counted. A plain handler's
    connection is opened, used and closed in the thread that it runs in.

    ``close()`` of what comes back lets go of the pool that an address stands for; messages that
    come after it are put back.

    On SQLite the write lock is held while the handler runs: one message is handled at a time.

    :param connect: ``postgresql://...`` or ``sqlite:///path``; or for a plain handler what gives a
        PEP 249 connection, or lends SQLAlchemy's (``Engine.connect``, a ``sessionmaker``), for an
        ``async def`` one what opens, or lends, an asynchronous connection of psycopg, aiosqlite or
        SQLAlchemy, such as ``AsyncConnectionPool.connection``; an address opens one for each
        message
    :param key: what identifies a message; its envelope's id by default
    :param lease: how long a session of PostgreSQL may be idle in its transaction
    :param retention: how long a handled message is remembered
    :param scope: keeps handlers apart that share a table and must each see a message
    :param codec: how results are kept; JSON by default
    :param max_result: bytes of a result that is kept; a larger one is not, and told in the log
    :param dialect: for connections of a driver that the stores do not know
    :param create: create and migrate the table at first use
    :raises ConfigurationError: a plain handler with an asynchronous ``connect``, or the reverse
    """
    asynchronous = is_coroutine_function(checked_handler(handler, "message", "tx"))
    checked_identity(key, scope)
    if callable(connect) and _opens_awaited(connect) is not asynchronous:
        raise _ill_matched(asynchronous)
    if key is not None and is_coroutine_function(key):
        raise ConfigurationError("acemq: the key of a transactional handler is a plain function")
    inbox = import_module("acemq_stores.sql.inbox")
    make = inbox.AsyncSqlInbox if asynchronous else inbox.SqlInbox
    results = Results(codec)
    opened = make(
        connect,
        lease=lease,
        retention=retention,
        max_result=max_result,
        table=table,
        dialect=dialect,
        create=create,
    )
    identity = _identity(key, scope)
    later = in_progress(in_progress_delay)
    wrapped = _wrapped(opened, handler, identity, results, later)
    wrapped.close = opened.close  # type: ignore[attr-defined]
    return wrapped


def _wrapped(
    inbox: Any,
    handler: Callable[[Message, Any], Any],
    identity: Callable[[Message], str],
    results: Results,
    later: Ack,
) -> Callable[[Message], Any]:
    async def handled(message: Message) -> Ack:
        key = identity(message)
        try:
            async with inbox.transaction(key) as begun:
                if begun.claim is Claim.DUPLICATE:
                    return accept(results.decoded(key, begun.result))
                if begun.claim is Claim.IN_PROGRESS:
                    return later
                ack = await _answer(handler, message, begun.connection)
                if ack.kind is not AckKind.ACCEPT:
                    raise _Undone(ack)
                begun.result = results.encoded(key, ack.result)
        except _Undone as undone:
            return undone.ack
        except _Failed as failed:
            raise failed.failure from failed.failure.__cause__
        except TransactionEnded:
            raise  # the handler's own doing: the retry policy has to see it
        except AceMQError as failure:
            # A commit that was cut off may have taken place: the next delivery finds out.
            log.warning("acemq: %r is put back: %s", key, failure)
            return later
        return ack

    if is_coroutine_function(handler):

        @functools.wraps(handler, updated=())
        async def awaited(message: Message) -> Ack:
            return await handled(message)

        return awaited

    @functools.wraps(handler, updated=())
    def called(message: Message) -> Ack:
        return driven(handled(message))

    return called


async def _answer(handler: Callable[[Message, Any], Any], message: Message, tx: Any) -> Ack:
    try:
        returned = handler(message, tx)
        return decision_of(await returned if inspect.isawaitable(returned) else returned)
    except BaseException as failure:
        raise _Failed(failure) from failure


def _opens_awaited(connect: Callable[..., Any]) -> bool:
    """Whether it is a coroutine function, or gives an asynchronous context manager."""
    if is_coroutine_function(connect):
        return True
    # AsyncEngine.connect is a plain method, an async_sessionmaker an object
    if type(getattr(connect, "__self__", connect)).__module__.startswith("sqlalchemy.ext.asyncio"):
        return True
    return inspect.isasyncgenfunction(inspect.unwrap(getattr(connect, "__func__", connect)))


def _identity(key: KeyOf | None, scope: str) -> Callable[[Message], str]:
    prefix = f"{scope}:" if scope else ""

    def identity(message: Message) -> str:
        told = message.envelope.id if key is None else key(message)
        if not isinstance(told, str) or not told:
            raise ConfigurationError(
                f"acemq: the key of message {message.envelope.id} is {told!r}: the key function of "
                "a transactional handler gives text, and never an empty one"
            )
        return prefix + told

    return identity


def _ill_matched(asynchronous: bool) -> ConfigurationError:
    if asynchronous:
        return ConfigurationError(
            "acemq: an 'async def' transactional handler wants an asynchronous connection: pass an "
            "address, or a coroutine function that opens one, such as AsyncConnection.connect"
        )
    return ConfigurationError(
        "acemq: a plain transactional handler cannot use an asynchronous connection: pass an "
        "address, or a plain function that opens one; or make the handler 'async def'"
    )
