"""The blocking face of a consumer. Handlers run on its worker threads."""

from __future__ import annotations

from types import TracebackType

from acemq_amqp.core.consumer import Consumer as CoreConsumer
from acemq_amqp.durations import Duration
from acemq_amqp.errors import BrokerError
from acemq_amqp.flavours.threads import drive


class Consumer:
    """Messages of one queue, handed to one handler. Made by ``Connection.consume``.

    Every delivery is settled exactly once, however its handler ends.
    """

    def __init__(self, consumer: CoreConsumer) -> None:
        self._core = consumer

    def __repr__(self) -> str:
        return repr(self._core)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Consumer) and other._core is self._core

    def __hash__(self) -> int:
        return hash(self._core)

    @property
    def queue(self) -> str:
        """What it reads."""
        return self._core.queue

    @property
    def closed(self) -> bool:
        """Whether it has stopped for good: closed here, or ended by the broker (see ``error``)."""
        return self._core.closed

    @property
    def running(self) -> bool:
        """Whether the broker has confirmed it and delivers to it now."""
        return self._core.running

    @property
    def in_flight(self) -> int:
        """Handlers that are running."""
        return self._core.in_flight

    @property
    def unsettled(self) -> int:
        """Deliveries answered and not settled yet: held for a wait, or on their way elsewhere."""
        return self._core.unsettled

    @property
    def stalled(self) -> bool:
        """Whether every delivery it may have waits to be settled elsewhere."""
        return self._core.stalled

    @property
    def error(self) -> BrokerError | None:
        """Why the broker ended it for good, else None."""
        return self._core.error

    def close(self, timeout: Duration = 20.0) -> bool:
        """Stops: no handler starts, running ones finish, what was not started is given back.

        :param timeout: seconds for all of it; stragglers are cancelled (async) or abandoned
            (blocking) afterwards, and their messages left to the broker
        :returns: whether everything ended in time. Called from inside its own handler it only
            starts the stop, and returns False
        """
        return drive(self._core.close(timeout))

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        drive(self._core.__aexit__(kind, error, trace))
