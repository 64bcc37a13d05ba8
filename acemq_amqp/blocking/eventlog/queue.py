"""The blocking face of a log: each verb drives the coroutine of the same name to its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from acemq_amqp.ack import Ack
from acemq_amqp.core.publishing import PublishResult
from acemq_amqp.eventlog import verbs
from acemq_amqp.eventlog.client import LogClient
from acemq_amqp.eventlog.consuming import Consuming
from acemq_amqp.eventlog.lane_consuming import LaneConsuming
from acemq_amqp.eventlog.messages import LogMessage
from acemq_amqp.eventlog.moving import Lag, Moved
from acemq_amqp.eventlog.selection import Selection
from acemq_amqp.patterns.waiting import driven

#: What handles a message, or a list of them without ``each()``.
LogHandler = Callable[[Any], Ack | None]


class Reader:
    """A reader that runs in the background. Made by ``LogQueue.start``."""

    def __init__(self, running: Consuming | LaneConsuming) -> None:
        self._running = running

    @property
    def running(self) -> bool:
        """Whether it has not been stopped, and has not ended."""
        return not self._running.over

    @property
    def missed(self) -> int:
        """Offsets that retention took before they were read, and ``on_gap="skip"`` passed over."""
        return self._running.reading.source.gaps.missed

    def stop(self) -> None:
        """Ends it after what it is handling; what was handled is committed.

        :raises AceMQError: what had ended it before
        """
        self._running.stop()
        driven(self._running.ended())

    def ended(self) -> None:
        """Waits until it has ended by itself.

        :raises AceMQError: what ended it, if that was not its limit or idle time
        """
        driven(self._running.ended())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class LogQueue(Selection):
    """One log, as said so far. Words change it in place and return it; verbs do something with it.

    ``create`` and ``push`` make a log that is not there; reading one that is not is ``NotFound``.
    """

    def __init__(self, client: LogClient, name: str) -> None:
        super().__init__(name)
        self.client = client

    def create(self) -> Self:
        """Makes the log, or takes the one that is there as it is.

        :raises ConfigurationError: it has another number of streams than was asked for
        """
        driven(verbs.create(self.client, self))
        return self

    def push(self, message: Any) -> Any:
        """Appends ``{"data": payload}``, or a list of such in order, and waits for the broker.

        All are checked before the first is sent.

        :returns: a ``PublishResult``, or a list of them
        :raises ConfigurationError: something in it cannot travel; nothing was pushed
        :raises PublishError: it was not confirmed
        """
        result: PublishResult | list[PublishResult] = driven(verbs.push(self.client, self, message))
        return result

    def pop(self) -> list[LogMessage]:
        """Takes what is due and in nobody's hands; empty means that there is nothing.

        What is not acknowledged within the lease is given again.

        :raises NotFound: there is no such log
        :raises BrokerError: nothing is known, as the broker is not there
        """
        return driven(verbs.pop(self.client, self))

    def consume(self, handler: LogHandler) -> None:
        """Hands messages to a handler until the limit, the idle time, or for ever.

        Everything handled is committed when it returns. What failed is tried again, and is a dead
        letter in ``{log}.dlq`` after ``retry_limit`` retries.

        :param handler: is given lists of messages; with ``each()`` the messages one by one
        :raises NotFound: there is no such log
        :raises LogReplaced: the log was deleted and made again
        :raises RetentionPassed: messages are gone that were not read
        """
        driven(verbs.consume(self.client, self, handler))

    def start(self, handler: LogHandler) -> Reader:
        """The same in the background: what is pushed from its return on is read."""
        return Reader(driven(verbs.start(self.client, self, handler)))

    def lag(self) -> Lag:
        """How many messages the group has not acknowledged; none means that it has caught up.

        :raises NotFound: there is no such log
        :raises LogReplaced: the log was deleted and made again
        """
        return driven(verbs.lag(self.client, self))

    def seek(self, options: Mapping[str, Any]) -> list[Moved]:
        """Moves the group; what was in flight is abandoned, and its late ack changes nothing.

        :param options: ``timestamp``, ``offset``, ``to`` (``"first"``, ``"next"``) or ``back``,
            so many messages; ``dry_run`` only tells what would move
        :raises ConfigurationError: an unknown option, a time without a zone, a place outside
        """
        return driven(verbs.seek(self.client, self.name, self.grouped(), options, self.lane))

    def delete(self) -> None:
        """Deletes the group that was named; without one, the log with all its messages."""
        driven(verbs.delete(self.client, self))
