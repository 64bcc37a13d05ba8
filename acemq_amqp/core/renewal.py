"""Secrets that expire, renewed on a connection that is up.

The source of the login is asked again when most of the present secret's time has passed,
and the broker is given what it answers. In vain or refused, that is tried again in less
and less time; if the secret expires all the same, the broker ends the connection, and the
next one logs in with what the source gives then.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from acemq_amqp.core.login import Logins
from acemq_amqp.core.ports import Link, Work
from acemq_amqp.credentials import Credentials
from acemq_amqp.errors import AceMQError

log = logging.getLogger("acemq_amqp")

#: one renewal may take this long, source and broker together, in seconds
_LIMIT = 10.0
#: how much of the time left passes before the source is asked, and asked again
_FRESH, _STALE = 0.8, 0.2


def renewal_wait(remaining: float, fruitless: int, backoff: Callable[[int], float]) -> float:
    """Seconds until a source is asked for the next secret.

    :param remaining: seconds until the present one expires, negative where it has
    :param fruitless: how often the source was asked in vain since the present one came
    """
    return max(remaining * (_STALE if fruitless else _FRESH), backoff(fruitless))


class Renewal:
    """Gives the broker a new secret before the present one expires, for as long as a link is up.

    :param credentials: what the link logged in with; they expire
    """

    def __init__(
        self,
        work: Work,
        logins: Logins,
        link: Link,
        credentials: Credentials,
        *,
        name: str,
        backoff: Callable[[int], float],
    ) -> None:
        self._work = work
        self._logins = logins
        self._link = link
        self._credentials = credentials
        self._name = name
        self._backoff = backoff
        self._over = work.event()
        self._task = work.spawn(self._run(), f"acemq-{name}-renewal")

    def stop(self) -> None:
        """The link is gone."""
        self._over.set()

    async def join(self, deadline: float | None) -> None:
        """Waits until it has stopped."""
        if not await self._task.join(deadline):
            self._task.cancel()

    async def _run(self) -> None:
        fruitless = 0
        while (due := self._due(fruitless)) is not None:
            if await self._over.wait(due):
                return
            fruitless = 0 if await self._renewed() else fruitless + 1

    def _due(self, fruitless: int) -> float | None:
        remaining = self._remaining(self._credentials)
        if remaining == math.inf:
            return None
        return self._work.clock.monotonic() + renewal_wait(remaining, fruitless, self._backoff)

    def _remaining(self, credentials: Credentials) -> float:
        """Seconds until they expire; infinite where they do not."""
        expiry = credentials.expires_at
        return math.inf if expiry is None else expiry.timestamp() - self._work.clock.now()

    async def _renewed(self) -> bool:
        """Whether there is a new secret that lasts, and the broker has it."""
        limit = self._work.clock.monotonic() + _LIMIT
        try:
            credentials = await self._logins.read(limit)
            if credentials is None or credentials == self._credentials:
                return False
            await self._handed_over(credentials, limit)
        except AceMQError as failure:
            if not self._over.is_set():
                log.warning(
                    "acemq: the secret of the %s connection could not be renewed, trying again: %s",
                    self._name,
                    failure,
                )
            return False
        self._credentials = credentials
        return self._remaining(credentials) > 0

    async def _handed_over(self, credentials: Credentials, limit: float) -> None:
        if credentials.username != self._link.broker.login:
            log.warning(
                "acemq: the source of credentials gave another user name, which an open connection "
                "cannot take; it counts from the next %s connection on",
                self._name,
            )
            return
        await self._link.update_secret(credentials.password, limit)
        log.info("acemq: the secret of the %s connection was renewed", self._name)
