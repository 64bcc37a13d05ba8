"""One connection that comes back: states, backoff, several addresses, one log line a change.

A supervisor is a loop: make a link, restore what hung on the last one, wait until
it is lost, again. Whoever needs the link waits for it with a deadline. Nothing of
a driver's own recovery is used.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import logging
import random
from collections.abc import Awaitable, Callable, Sequence

from acemq_amqp.address import Address
from acemq_amqp.core.login import Logins
from acemq_amqp.core.observer import Observing
from acemq_amqp.core.ports import Deadline, Link, LinkEvents, Task, Transport, Work
from acemq_amqp.core.renewal import Renewal
from acemq_amqp.credentials import Credentials, CredentialsSource
from acemq_amqp.errors import (
    AuthenticationRefused,
    BrokerError,
    CannotConnect,
    ConfigurationError,
    ConnectionLost,
    TlsFailed,
    UnknownHost,
)

log = logging.getLogger("acemq_amqp")

_FIRST_WAIT = 0.1
_LONGEST_WAIT = 5.0
#: A broker that takes connections and ends them at once is asked twice a second at most.
_GENTLY = 2
#: One attempt may take this long, so that the next address gets its turn.
_ATTEMPT = 10.0
#: What trying again cannot help. Told at once where somebody waits for the first connection.
_FINAL = (AuthenticationRefused, TlsFailed)


class LinkState(enum.Enum):
    """Where a supervised connection stands."""

    IDLE = "idle"
    CONNECTING = "connecting"
    OPEN = "open"
    LOST = "lost"
    CLOSED = "closed"


def backoff(attempt: int, dice: Callable[[], float] = random.random) -> float:
    """Seconds before the next try: doubling from 0.1 to 5, with jitter of half."""
    wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(attempt, 16))
    return wait * (0.5 + dice() / 2)


class Supervisor:
    """Keeps one link to one of several addresses.

    :param restore: carried out on every new link before anybody else gets it
    :param source: gives the login of each attempt; None where it stands in the addresses
    :param lost: told when the link is gone, or closed here; only enqueues
    """

    def __init__(
        self,
        work: Work,
        transport: Transport,
        addresses: Sequence[Address],
        *,
        name: str,
        source: CredentialsSource | None = None,
        restore: Callable[[Link], Awaitable[None]],
        opened: Callable[[Link], None] = lambda link: None,
        lost: Callable[[BrokerError], None] = lambda why: None,
        observing: Observing | None = None,
    ) -> None:
        self._work = work
        self._transport = transport
        self._addresses = itertools.cycle(addresses)
        self._shown = ", ".join(address.shown for address in addresses)
        self._tries = len(addresses)
        self._name = name
        self._restore = restore
        self._opened = opened
        self._observing = observing or Observing(None)
        self._labels = {"connection": name}
        self._tell_lost = lost
        self._lock = work.lock()
        self._changed = work.event()
        self._closing = work.event()
        self._losses = work.queue()
        self._task: Task | None = None
        #: counts attempts, so that a loss is known for the link it is of
        self._epoch = 0
        #: whether the link of the latest attempt has not been lost
        self._stands = False
        #: links in a row that did not live long
        self._short_lived = 0
        self._opened_at = 0.0
        self._logins = Logins(work, source)
        self._credentials: Credentials | None = None
        self._renewal: Renewal | None = None
        self.state = LinkState.IDLE
        self.link: Link | None = None
        self._latest: Link | None = None
        self.failure: BrokerError | None = None
        self.recoveries = 0

    # ------------------------------------------------------------ what others see

    async def connected(self, deadline: Deadline) -> Link:
        """The open link, opening it on first use.

        :raises ConnectionLost: none by the deadline, or this connection is closed
        :raises AuthenticationRefused: the first connection was refused for its login or vhost
        :raises TlsFailed: the first connection was refused for its TLS
        """
        link = self.link
        if link is not None:
            return link
        self._start()
        while self.state is not LinkState.CLOSED:
            if not await self._changed.wait(deadline):
                raise self._down()
            link = self.link
            if link is not None:
                return link
            if self.state is LinkState.IDLE:  # the first attempt was refused for good
                raise self.failure or self._down()
        raise ConnectionLost(
            f"acemq: the {self._name} connection to {self._shown} is closed; open a new one"
        )

    async def open(self, deadline: Deadline, *, fail_fast: bool) -> None:
        """Makes the first link in the caller's own time, then keeps it.

        :raises AuthenticationRefused: at once
        :raises TlsFailed: at once
        :raises ConfigurationError: at once; the source of the login cannot give one
        :raises UnknownHost: at once, where that is so of every address
        :raises CannotConnect: every address failed once (``fail_fast``), or none worked in time
        """
        link = await self._establish(deadline, self._tries if fail_fast else None)
        await self._take(link)
        self._task = self._work.spawn(self._keep(), f"acemq-{self._name}")

    async def close(self, deadline: Deadline) -> None:
        """Closes the link, in order until the deadline, then by force; ends the loop."""
        with self._lock:
            self.state = LinkState.CLOSED
            self.link = None
        self._closing.set()
        self._changed.set()
        self._tell_lost(ConnectionLost(f"acemq: the {self._name} connection was closed here"))
        self._losses.put(None)
        self._stop_renewal()
        if self._latest is not None:  # one that was lost may still be clearing away
            await self._latest.close(deadline)
        if self._task is not None and not await self._task.join(deadline):
            self._task.cancel()
        self._stop_renewal()  # of a link that the loop took meanwhile
        if self._renewal is not None:
            await self._renewal.join(deadline)

    def soon(self, last: Callable[[], Awaitable[None]]) -> None:
        """Has the loop do a last thing, and end. Any thread, at any moment; only enqueues."""
        self._losses.put(last)

    def abort(self) -> None:
        """Drops the socket at once."""
        if self.link is not None:
            self.link.abort()

    # ------------------------------------------------------------ the loop

    def _start(self) -> None:
        with self._lock:
            if self.state is not LinkState.IDLE or self._task_runs():
                return
            self.state = LinkState.CONNECTING
            self._changed.clear()
        self._task = self._work.spawn(self._first(), f"acemq-{self._name}")

    def _task_runs(self) -> bool:
        return self._task is not None and not self._task.done()

    async def _first(self) -> None:
        try:
            await self._take(await self._establish(None, None))
        except _FINAL as refused:
            self.failure = refused
            self.state = LinkState.IDLE
            self._changed.set()
            return
        except ConnectionLost:
            return  # closed meanwhile
        await self._keep()

    async def _keep(self) -> None:
        while True:
            lost: BrokerError | Callable[[], Awaitable[None]] | None = await self._losses.get()
            if lost is None or self.state is LinkState.CLOSED:
                return
            if not isinstance(lost, BrokerError):
                await lost()
                return
            self._stop_renewal()
            log.warning("acemq: the %s connection was lost, reconnecting: %s", self._name, lost)
            try:
                await self._rest()
                await self._take(await self._establish(None, None))
            except ConnectionLost:
                return  # closed meanwhile
            self.recoveries += 1
            self._observing.count("acemq.connection.recoveries", self._labels)

    async def _rest(self) -> None:
        """Waits before the next try where the broker takes connections and ends them at once."""
        clock = self._work.clock
        short = clock.monotonic() - self._opened_at < _LONGEST_WAIT
        self._short_lived = self._short_lived + 1 if short else 0
        if self._short_lived > 1:
            wait = backoff(min(self._short_lived - 2, _GENTLY))
            if await self._closing.wait(clock.monotonic() + wait):
                raise ConnectionLost(f"acemq: the {self._name} connection is closed")

    async def _take(self, link: Link) -> None:
        self._latest = link
        try:
            await self._restore(link)
        except Exception as failure:
            # The link is up and something on it could not be restored. Keeping it is better than
            # a reconnect loop; what failed is told here and by whoever needs it next.
            log.error("acemq: not everything was restored on %s: %s", self._name, failure)
        self._opened_at = self._work.clock.monotonic()
        with self._lock:
            closed = self.state is LinkState.CLOSED
            if not closed and self._stands:
                self.link, self.state, self.failure = link, LinkState.OPEN, None
                self._changed.set()
            elif not closed:
                self.state = LinkState.LOST  # while it was restored
        if closed:
            await link.close(self._work.clock.monotonic() + 1.0)
            raise ConnectionLost(f"acemq: the {self._name} connection is closed")
        if self.link is link:
            self._renew(link)
            self._observing.gauge("acemq.connection.blocked", self._labels, 0.0)
            log.info("acemq: the %s connection is open (%s)", self._name, link.broker.product)
            self._opened(link)

    def _lost(self, epoch: int, why: BrokerError) -> None:
        """Called by the transport. From here on nobody gets this link any more."""
        with self._lock:
            if epoch != self._epoch or self.state is LinkState.CLOSED:
                return
            self._stands = False
            if self.link is not None:
                self.link, self.state = None, LinkState.LOST
                self._changed.clear()
            self.failure = why
        self._losses.put(why)
        self._tell_lost(why)

    def _renew(self, link: Link) -> None:
        credentials = self._credentials
        if credentials is not None and credentials.expires_at is not None:
            self._renewal = Renewal(
                self._work, self._logins, link, credentials, name=self._name, backoff=backoff
            )

    def _stop_renewal(self) -> None:
        if self._renewal is not None:
            self._renewal.stop()

    async def _establish(self, deadline: Deadline, tries: int | None) -> Link:
        clock = self._work.clock
        unknown_hosts = 0
        for attempt in itertools.count():
            try:
                return await self._attempt(deadline)
            except _FINAL as refused:
                self.failure = refused
                if self.recoveries == 0 and self.state is not LinkState.LOST:
                    raise
            except ConfigurationError as wrong:
                # Of a login or of files that were fine once, or that somebody puts right.
                self.failure = CannotConnect(str(wrong))
                if deadline is not None:
                    raise
            except BrokerError as failure:
                self.failure = failure
                unknown_hosts += isinstance(failure, UnknownHost)
                if unknown_hosts == self._tries and deadline is not None:
                    raise  # all of them are, and somebody waits for the first connection
            except Exception as fault:  # none of ours: a driver's, and no reason to stop trying
                log.exception("acemq: the %s connection failed unexpectedly", self._name)
                self.failure = CannotConnect(f"acemq: {type(fault).__name__}: {fault}")
            wait = backoff(attempt)
            too_late = deadline is not None and clock.monotonic() + wait >= deadline
            if too_late or (tries is not None and attempt + 1 >= tries):
                raise self._unreachable()
            if attempt == 0:
                log.warning("acemq: cannot connect, trying again: %s", self.failure)
            if await self._closing.wait(clock.monotonic() + wait):
                raise ConnectionLost(f"acemq: the {self._name} connection is closed")
        raise AssertionError("unreachable")  # pragma: no cover - count() has no end

    async def _attempt(self, deadline: Deadline) -> Link:
        limit = self._work.clock.monotonic() + _ATTEMPT
        limit = limit if deadline is None else min(limit, deadline)
        address = next(self._addresses)
        login = self._credentials = await self._logins.read(limit)
        if login is not None:
            address = dataclasses.replace(address, username=login.username, password=login.password)
        self._epoch, self._stands = self._epoch + 1, True
        events = LinkEvents(
            lost=functools.partial(self._lost, self._epoch),
            blocked=self._blocked,
            unblocked=self._unblocked,
        )
        return await self._transport.connect(
            address,
            name=self._name,
            events=events,
            deadline=limit,
        )

    def _blocked(self, reason: str) -> None:
        self._observing.gauge("acemq.connection.blocked", self._labels, 1.0)
        log.warning("acemq: the broker has paused publishing: %s", reason)

    def _unblocked(self) -> None:
        self._observing.gauge("acemq.connection.blocked", self._labels, 0.0)
        log.info("acemq: the broker takes messages again")

    def _down(self) -> ConnectionLost:
        reason = f": {self.failure}" if self.failure is not None else ""
        lost = ConnectionLost(
            f"acemq: the {self._name} connection to {self._shown} is down and did not come back "
            f"in time{reason}; it is being tried again in the background"
        )
        lost.__cause__ = self.failure
        return lost

    def _unreachable(self) -> BrokerError:
        failure = self.failure
        if isinstance(failure, CannotConnect):
            return failure
        return self._down()
