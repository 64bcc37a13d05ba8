"""How a connection ends: closed, asked to by a signal, given up by a consumer, or left open.

In this order: consumers take no more and their handlers finish, what was published is confirmed,
failed messages go where they belong, and both links close. What was left open by its owner is
dropped with a warning that says what to do.
"""

from __future__ import annotations

import logging
import warnings

from acemq_amqp.core.keeper import Keeper
from acemq_amqp.core.ports import Queue, Work
from acemq_amqp.core.publishing import Publishing
from acemq_amqp.core.settling import Settler
from acemq_amqp.core.supervisor import Supervisor
from acemq_amqp.durations import Duration, seconds
from acemq_amqp.errors import BrokerError, ConfigurationError

log = logging.getLogger("acemq_amqp")

#: A consumer past its deadline still gets so long to close its channel, in seconds.
_GRACE = 1.0
#: Signals that come within so many seconds are one wish: a terminal and a service manager may
#: both pass on one Ctrl-C.
_ONE_WISH = 0.25
#: What was left open may take so long to part with its broker, in seconds.
_PARTING = 0.5
#: Whoever is cancelled together with the connection's own tasks closes it within so many seconds.
_SLOWER = 0.1

LEFT_OPEN = (
    "acemq: a connection was left open, and is dropped now: use it in a `with` block (`async with` "
    "in the async flavour), or call its close(), so that handlers may finish"
)
FORGOTTEN = (
    "acemq: a connection was forgotten while it has consumers, which go on until the process ends: "
    "keep it, and call its close() at the end, or use it in a `with` block"
)


class Stopping:
    """Ends one connection, once.

    :param endings: where a consumer that was given up puts its error, and a signal or close None
    :ivar begun: whether it takes no more work
    """

    def __init__(
        self,
        work: Work,
        endings: Queue[BrokerError | None],
        keeper: Keeper,
        publishing: Publishing,
        settler: Settler,
        sending: Supervisor,
        control: Supervisor,
    ) -> None:
        self._work = work
        self._endings = endings
        self._keeper = keeper
        self._publishing = publishing
        self._settler = settler
        self._sending = sending
        self._control = control
        self._beginning = work.event()
        self._over = False
        self._asked_at: float | None = None
        self.begun = False

    async def run(self) -> None:
        """Works until a signal comes, a consumer is given up, or somebody closes the connection.

        :raises BrokerError: why the consumer was given up
        """
        if self._over:
            raise closed()
        if self._inside_a_handler():
            raise ConfigurationError(
                "acemq: run() waits until all handlers have ended, and was called inside one, for "
                "which it would wait for ever. Call it where the connection was opened"
            )
        with self._work.signals(self._signalled):
            ending = await self._endings.get()
            await self.close(20.0)
        if isinstance(ending, BrokerError):
            raise ending

    async def close(self, timeout: Duration) -> bool:
        """Ends it in order; from inside a handler it only starts that, and returns False."""
        limit = self._work.clock.monotonic() + seconds(timeout, "timeout")
        if self._inside_a_handler():
            self._work.spawn(self._close(limit), "acemq-closing")
            return False
        in_time = await self._work.finish(self._close(limit))
        self._over = True
        return in_time

    async def left(self) -> None:
        """The event loop is ending, and this is still open."""
        clock = self._work.clock
        if await self._beginning.wait(clock.monotonic() + _SLOWER):
            return  # its owner was cancelled too, and closes it
        self.begun = True
        await self._part(clock.monotonic() + _PARTING)
        self._work.stop()
        warnings.warn(LEFT_OPEN, ResourceWarning, source=self, stacklevel=2)

    def forsake(self) -> None:
        """Nobody can use it any more. Closes it behind the scenes. Any thread, at any moment."""
        self._control.soon(self._dropped)

    async def _dropped(self) -> None:
        await self._close(self._work.clock.monotonic() + _PARTING)

    async def _close(self, limit: float) -> bool:
        self.begun = True
        self._beginning.set()
        consumers = self._keeper.last_consumers()
        closing = [
            self._work.spawn(each.close_by(limit), f"acemq-{each.queue}-closing")
            for each in consumers
        ]
        ended = all([await task.join(limit + _GRACE) for task in closing])
        in_time = ended and all(each.in_time for each in consumers)
        in_time = await self._publishing.stop(limit) and in_time
        await self._keeper.close(limit)
        await self._settler.close(limit)
        await self._part(limit)
        self._work.stop()
        self._endings.put(None)
        return in_time

    async def _part(self, limit: float) -> None:
        await self._sending.close(limit)
        await self._control.close(limit)

    def _inside_a_handler(self) -> bool:
        return any(consumer.handling_here for consumer in list(self._keeper.consumers))

    # ------------------------------------------------------------ signals

    def _signalled(self) -> None:
        now = self._work.clock.monotonic()
        if self._asked_at is None:
            self._asked_at = now
            log.info("acemq: a signal: handlers may finish; another signal does not wait for them")
            self._endings.put(None)
        elif now - self._asked_at > _ONE_WISH:
            self._hurry()

    def _hurry(self) -> None:
        log.warning("acemq: a second signal: not waiting for handlers any longer")
        for consumer in list(self._keeper.consumers):
            consumer.hurry()
        self._control.abort()
        self._sending.abort()


def closed() -> ConfigurationError:
    """What whoever uses a connection after its end is told."""
    return ConfigurationError("acemq: this connection is closed; open a new one")
