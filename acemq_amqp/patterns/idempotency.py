"""Idempotent consumer: a message that comes again is not handled again.

Before the handler runs its message is claimed in a store, in one atomic step; afterwards the claim
is confirmed, or given up. A claim is a lease: it is renewed while the handler runs, ends by itself
where the process dies, and is fenced, so that a holder that was overtaken is told and its delivery
put back. The logic is one text: a plain handler's wrapper drives it, a coroutine function's awaits
it.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import logging
import os
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from acemq_amqp.ack import Ack, AckKind, accept, decision_of, in_progress
from acemq_amqp.codec import Codec
from acemq_amqp.durations import Duration
from acemq_amqp.envelope import fresh_id
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.flavours.calls import is_coroutine_function
from acemq_amqp.message import Message
from acemq_amqp.patterns.claim import Claim
from acemq_amqp.patterns.handlers import checked_handler, checked_identity
from acemq_amqp.patterns.renewals import TaskRenewals, ThreadRenewals
from acemq_amqp.patterns.results import Results
from acemq_amqp.patterns.store_threads import threads_of
from acemq_amqp.patterns.waiting import asked, driven

log = logging.getLogger("acemq_amqp")

KeyOf = Callable[[Message], Any]


@runtime_checkable
class IdempotencyStore(Protocol):
    """Remembers which messages were handled.

    These two methods are enough for :func:`idempotent`, without leases: a process that dies in its
    handler has handled its message. A store that has ``claim``, ``confirm`` and ``renew`` too, as
    :class:`LeasingStore` says, loses none. A method may suspend where handlers are ``async def``;
    it may be a plain ``def`` too, and is then called in a thread where it would hold up a loop.
    """

    async def first_time(self, key: str) -> bool:
        """Records a key in one atomic step, and says whether it had not been seen before.

        :param key: what identifies the message
        """

    async def forget(self, key: str) -> None:
        """Removes a key, so that a message that failed can be tried again.

        :param key: what identifies the message
        """


@runtime_checkable
class LeasingStore(Protocol):
    """A store whose claims end by themselves, and are fenced by who holds them."""

    @property
    def claim_timeout(self) -> float:
        """Seconds that a claim holds unless it is renewed."""

    async def claim(self, key: str, holder: str = "") -> Claim:
        """Claims a message, in one atomic step, for a lease."""

    async def confirm(self, key: str, holder: str = "", result: bytes | None = None) -> bool:
        """Remembers a message as handled; False where the claim is another's by now."""

    async def renew(self, key: str, holder: str = "") -> bool:
        """Begins the lease anew; False where the claim is another's by now."""

    async def forget(self, key: str, holder: str = "") -> None:
        """Gives a claim up."""


def idempotent(
    store: IdempotencyStore | LeasingStore,
    handler: Callable[[Message], Any],
    *,
    key: KeyOf | None = None,
    in_progress_delay: Duration = 5.0,
    scope: str = "",
    codec: Codec | None = None,
) -> Callable[[Message], Any]:
    """A handler that runs once for each message, however often that is delivered.

    What was accepted is not run again: a repeat is accepted, with the result that was kept, if any.
    Anything else, a raise included, gives the claim up. A message that another delivery is being
    handled of comes back after ``in_progress_delay``, with no attempt counted; so does one whose
    claim was lost to another meanwhile, and every message while the store cannot be reached.
    Where the process dies between handling and confirming, the handler runs again.

    :param store: shared by all consumers that must not repeat each other's work
    :param handler: ``def`` or ``async def``; what comes back is of the same sort
    :param key: what identifies a message; its envelope's id by default
    :param in_progress_delay: how long such a message waits before it is looked at again
    :param scope: keeps handlers apart that share a store and must each see a message
    :param codec: how results are kept; JSON by default
    :raises ConfigurationError: no store, no handler, or a coroutine function beside a plain one
    """
    checked_identity(key, scope)
    guard = _Guard(_checked_store(store), key, in_progress(in_progress_delay), scope, codec)
    if is_coroutine_function(checked_handler(handler, "message")):
        return _awaiting(guard, handler)
    if key is not None and is_coroutine_function(key):
        raise ConfigurationError(
            "acemq: the key of an idempotent handler is a coroutine function and the handler is "
            "not: make both 'async def', or neither"
        )
    return _driving(guard, handler)


def _awaiting(guard: _Guard, handler: Callable[[Message], Any]) -> Callable[[Message], Any]:
    renewals = TaskRenewals(guard.renew, guard.lease)

    @functools.wraps(handler, updated=())
    async def once(message: Message) -> Ack:
        return await guard.handle(message, handler, renewals)

    return once


def _driving(guard: _Guard, handler: Callable[[Message], Any]) -> Callable[[Message], Any]:
    renewals = ThreadRenewals(guard.renew, guard.lease)

    @functools.wraps(handler, updated=())
    def once(message: Message) -> Ack:
        return driven(guard.handle(message, handler, renewals))

    return once


class _Guard:
    """The logic, once: claim, run, confirm or give up."""

    def __init__(
        self, store: Any, key: KeyOf | None, later: Ack, scope: str, codec: Codec | None
    ) -> None:
        asked = _Asked(store)
        self._store: _Asked | _Unfenced = asked if _leases(store) else _Unfenced(asked)
        self._key = key
        self._later = later
        self._prefix = f"{scope}:" if scope else ""
        self._results = Results(codec)
        self._named = fresh_id()
        self._numbers = itertools.count(1)

    @property
    def lease(self) -> float:
        """Seconds of a claim; 0 where there are no leases."""
        return float(self._store.claim_timeout)

    async def renew(self, key: str, holder: str) -> bool:
        """Renews one claim, see :class:`LeasingStore`."""
        return await self._store.renew(key, holder)

    async def handle(
        self,
        message: Message,
        handler: Callable[[Message], Any],
        renewals: TaskRenewals | ThreadRenewals,
    ) -> Ack:
        """Runs the handler, or not, and says what becomes of the delivery."""
        key = await self._key_of(message)
        holder = self._fresh_holder()
        try:
            claim = await self._store.claim(key, holder)
        except Exception as failure:
            log.warning("acemq: %r is put back: it could not be claimed: %s", key, failure)
            return self._later
        if claim is Claim.IN_PROGRESS:
            return self._later
        if claim is Claim.DUPLICATE:
            return accept(await self._kept(key))
        held = renewals.begin(key, holder)
        try:
            ack = decision_of(await _answer(handler(message)))
        except Exception as failure:
            if await self._lost(key, holder, failure):
                return self._later
            await self._give_up(key, holder)
            raise
        except BaseException:
            await self._give_up(key, holder)
            raise
        finally:
            renewals.end(held)
        if ack.kind is AckKind.ACCEPT:
            return ack if await self._confirmed(key, holder, ack.result) else self._later
        if await self._lost(key, holder, ack.error):
            return self._later
        await self._give_up(key, holder)
        return ack

    def _fresh_holder(self) -> str:
        """Nobody else's: processes that were forked with this object have its name and numbers."""
        return f"{self._named}.{os.getpid()}.{next(self._numbers)}"

    async def _confirmed(self, key: str, holder: str, result: Any) -> bool:
        try:
            if await self._store.confirm(key, holder, self._results.encoded(key, result)):
                return True
            log.warning("acemq: %r is put back: its claim was lost while it was handled", key)
        except Exception as failure:
            log.warning("acemq: %r is put back: it could not be confirmed: %s", key, failure)
        return False

    async def _lost(self, key: str, holder: str, failure: Any) -> bool:
        """Whether the message is another's by now, so that this failure of it decides nothing."""
        try:
            if await self._store.renew(key, holder):
                return False
        except Exception:  # nobody can tell, and giving up comes to the same
            return False
        log.warning(
            "acemq: %r is put back: its claim was lost before its handler failed with %r",
            key,
            failure,
        )
        return True

    async def _give_up(self, key: str, holder: str) -> None:
        try:
            await self._store.forget(key, holder)
        except Exception as failure:
            log.warning(
                "acemq: the claim on %r could not be given up, and ends with its lease: %s",
                key,
                failure,
            )

    # ------------------------------------------------------------ keys and results

    async def _key_of(self, message: Message) -> str:
        if self._key is None:
            return self._prefix + message.envelope.id
        key = await _answer(self._key(message))
        if not isinstance(key, str) or not key:
            raise ConfigurationError(
                f"acemq: the key of message {message.envelope.id} is {key!r}: the key function of "
                "an idempotent handler gives text, and never an empty one"
            )
        return self._prefix + key

    async def _kept(self, key: str) -> Any:
        try:
            kept = await self._store.result(key)
        except Exception as failure:
            log.warning("acemq: the result kept of %r cannot be read: %s", key, failure)
            return None
        return self._results.decoded(key, kept)


class _Asked:
    """A store whose methods are coroutine functions, or plain ones, which may block."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._threads = threads_of(store)

    @property
    def claim_timeout(self) -> float:
        return float(self._store.claim_timeout)

    async def claim(self, key: str, holder: str) -> Claim:
        claim: Claim = await self.ask("claim", key, holder)
        return claim

    async def confirm(self, key: str, holder: str, result: bytes | None) -> bool:
        return bool(await self.ask("confirm", key, holder, result))

    async def renew(self, key: str, holder: str) -> bool:
        return bool(await self.ask("renew", key, holder))

    async def forget(self, key: str, holder: str) -> None:
        await self.ask("forget", key, holder)

    async def result(self, key: str) -> bytes | None:
        if not hasattr(self._store, "result"):
            return None
        kept: bytes | None = await self.ask("result", key)
        return kept

    async def ask(self, name: str, *arguments: Any) -> Any:
        return await asked(self._threads, getattr(self._store, name), *arguments)


class _Unfenced:
    """The claims of a store that has ``first_time`` and ``forget`` alone."""

    claim_timeout = 0.0

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked
        self.result = asked.result

    async def claim(self, key: str, holder: str) -> Claim:
        return Claim.CLAIMED if await self._asked.ask("first_time", key) else Claim.DUPLICATE

    async def confirm(self, key: str, holder: str, result: bytes | None) -> bool:
        return True

    async def renew(self, key: str, holder: str) -> bool:
        return True

    async def forget(self, key: str, holder: str) -> None:
        await self._asked.ask("forget", key)


async def _answer(returned: Any) -> Any:
    return await returned if inspect.isawaitable(returned) else returned


def _leases(store: Any) -> bool:
    return all(hasattr(store, name) for name in ("claim", "confirm", "renew", "claim_timeout"))


def _checked_store(store: Any) -> Any:
    if _leases(store) or (hasattr(store, "first_time") and hasattr(store, "forget")):
        return store
    raise ConfigurationError(
        f"acemq: a {type(store).__name__} is no idempotency store: it wants first_time and forget, "
        "or claim, confirm, renew and forget"
    )
