"""Leases that are kept while their handlers run.

One worker for all the claims of a wrapper: a task, or a thread that drives the same coroutine. It
starts with the first claim, looks about once a second, renews what was not renewed for a third of a
lease, and ends when it finds nothing held.
"""

from __future__ import annotations

import logging
import threading
from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Awaitable, Callable
from typing import Final

from acemq_amqp.core.ports import Work
from acemq_amqp.flavours.tasks import TaskWork
from acemq_amqp.flavours.threads import ThreadWork
from acemq_amqp.patterns.waiting import driving

log = logging.getLogger("acemq_amqp")

Renew = Callable[[str, str], Awaitable[bool]]

_RENEWALS: Final = 3
_LOOKS: Final = 6
_LONGEST_PAUSE: Final = 1.0


class Held:
    """A claim that is held."""

    __slots__ = ("due", "holder", "key")

    def __init__(self, key: str, holder: str, due: float) -> None:
        self.key = key
        self.holder = holder
        self.due = due


class _Renewals:
    """The claims held in one loop, or by threads."""

    def __init__(self, work: Work, renew: Renew, lease: float) -> None:
        self._work = work
        self._renew = renew
        self._lease = lease
        self._guard = threading.Lock()
        self._held: set[Held] = set()
        self._running = False

    def begin(self, key: str, holder: str) -> Held:
        held = Held(key, holder, self._work.clock.monotonic() + self._lease / _RENEWALS)
        if not self._lease:
            return held
        with self._guard:
            self._held.add(held)
            starting, self._running = not self._running, True
        if starting:
            self._work.spawn(self._keep(), "acemq-leases")
        return held

    def end(self, held: Held) -> None:
        with self._guard:
            self._held.discard(held)

    async def _keep(self) -> None:
        with driving(not isinstance(self._work, TaskWork)):
            while self._anything():
                await self._work.clock.sleep(min(self._lease / _LOOKS, _LONGEST_PAUSE))
                now = self._work.clock.monotonic()
                for held in [each for each in tuple(self._held) if each.due <= now]:
                    await self._keep_one(held, now)

    def _anything(self) -> bool:
        with self._guard:
            self._running = bool(self._held)
            return self._running

    async def _keep_one(self, held: Held, now: float) -> None:
        try:
            kept = await self._renew(held.key, held.holder)
        except Exception as failure:  # it is due again at the next look
            log.warning("acemq: the claim on %r could not be renewed: %s", held.key, failure)
            return
        held.due = now + self._lease / _RENEWALS
        if not kept and held in self._held:
            log.warning("acemq: the claim on %r is another's by now", held.key)
            self.end(held)


class ThreadRenewals:
    """Claims of plain handlers, kept by a thread."""

    def __init__(self, renew: Renew, lease: float) -> None:
        self._renewals = _Renewals(ThreadWork(), renew, lease)
        self.begin = self._renewals.begin
        self.end = self._renewals.end


class TaskRenewals:
    """Claims of coroutine functions, kept by a task of the loop that they run on."""

    def __init__(self, renew: Renew, lease: float) -> None:
        self._renew = renew
        self._lease = lease
        self._of: tuple[AbstractEventLoop, _Renewals] | None = None

    def begin(self, key: str, holder: str) -> Held:
        """Keeps a claim from now on."""
        return self._here().begin(key, holder)

    def end(self, held: Held) -> None:
        """Lets a claim be."""
        self._here().end(held)

    def _here(self) -> _Renewals:
        loop = get_running_loop()
        if self._of is None or self._of[0] is not loop:
            self._of = loop, _Renewals(TaskWork(), self._renew, self._lease)
        return self._of[1]
