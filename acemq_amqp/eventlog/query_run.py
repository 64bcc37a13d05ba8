"""What all streams of a running query share: the query, its limits, its tally, and its user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from acemq_amqp.core.ports import Call
from acemq_amqp.errors import BrokerError, ConfigurationError, StoreError
from acemq_amqp.eventlog.errors import LeaseLost, QueryFailed
from acemq_amqp.eventlog.job import Job
from acemq_amqp.eventlog.reading import Reading
from acemq_amqp.eventlog.running import GLANCE, PAUSES, Stopped
from acemq_amqp.eventlog.store import Query
from acemq_amqp.eventlog.tally import Tally

#: What is not the user's function's: the hold, or the store, is gone.
OUR_OWN: Final = (LeaseLost, StoreError, BrokerError, ConfigurationError)


@dataclass(frozen=True, slots=True)
class Limits:
    """How a query goes about it.

    :ivar batch: messages of a cycle at most
    :ivar wait: seconds that a look for messages lasts
    :ivar errors: failures in a row after which the query ends: of messages, or of what it calls
    """

    batch: int = 500
    wait: float = GLANCE
    errors: int = 100


@dataclass(frozen=True, slots=True)
class QueryRun:
    """A query as it runs here.

    :ivar each: the user's function for each result
    :ivar wake: tells the relay that there is something to send
    """

    reading: Reading
    job: Job
    query: Query
    limits: Limits
    each: Call | None
    wake: Callable[[], None]
    tally: Tally


class Ending(Protocol):
    """Who may be asked to end meanwhile."""

    @property
    def over(self) -> bool:
        """Whether it is to end."""

    async def pause(self, seconds: float) -> bool:
        """Waits; True where it is to end."""

    def ill(self, what: str, failure: Exception) -> None:
        """Notes a trouble that is being tried again."""

    def well(self, what: str) -> None:
        """Notes that it goes on."""


async def patiently(
    ending: Ending,
    what: str,
    act: Callable[[], Awaitable[None]],
    most: int,
    passes: tuple[type[Exception], ...] = (),
) -> None:
    """Does what calls the user's function, again and again where that fails.

    :param most: so often; then the query fails
    :param passes: failures that are not the function's
    :raises QueryFailed: it failed too often
    :raises Stopped: it failed, and the query is to end
    """
    failures = 0
    while True:
        try:
            await act()
        except passes:
            raise
        except Exception as failure:
            failures += 1
            if failures >= most:
                raise QueryFailed(
                    f"acemq: {what} failed {failures} times in a row, the last with "
                    f"{type(failure).__name__}: {failure}. What it was called for is not "
                    "committed: mend it, and run the query again"
                ) from failure
            ending.ill(what, failure)
            if await ending.pause(PAUSES[min(failures, len(PAUSES)) - 1]):
                raise Stopped from failure
            continue
        if failures:
            ending.well(what)
        return
