"""What a consumer tells of its work: counts and gauges, and a line in the log of what failed."""

from __future__ import annotations

import logging
from collections.abc import Callable

from acemq_amqp.ack import Ack, AckKind, described
from acemq_amqp.core.observer import Observing
from acemq_amqp.core.settlement import Hop, Settlement
from acemq_amqp.message import Message

log = logging.getLogger("acemq_amqp")


class Telling:
    """Tells of one queue.

    :param in_flight: handlers that run for this queue, over all consumers of the connection
    """

    def __init__(self, queue: str, observing: Observing, in_flight: Callable[[], int]) -> None:
        self._queue = queue
        self._observing = observing
        self._in_flight = in_flight

    @property
    def watched(self) -> bool:
        """Whether anybody counts."""
        return self._observing.watched

    def counted(self, outcome: str) -> None:
        """A delivery came to its end."""
        if self._observing.watched:
            self._observing.count("acemq.consume.total", {"queue": self._queue, "outcome": outcome})

    def busy(self) -> None:
        """A handler began or ended."""
        if self._observing.watched:
            labels = {"queue": self._queue}
            self._observing.gauge("acemq.consume.in.flight", labels, self._in_flight())

    def handled(self, message: Message) -> None:
        """A handler answered. Over the number of answers the sum is the mean attempt."""
        if self._observing.watched:
            labels, attempt = {"queue": self._queue}, message.envelope.attempt
            self._observing.count("acemq.consume.attempts", labels, attempt)

    def failed(self, message: Message, ack: Ack, settlement: Settlement) -> None:
        """A failure leaves a trace in the log: a warning with its traceback once it is final.

        What a handler set aside of its own will is no failure, and less loud.
        """
        hop = settlement if isinstance(settlement, Hop) else settlement.then
        final = hop.result in ("rejected", "dead_lettered", "parked")
        willed = ack.kind in (AckKind.REJECT, AckKind.PARK)
        level = logging.DEBUG if not final else logging.INFO if willed else logging.WARNING
        raised = ack.error if isinstance(ack.error, Exception) else None
        log.log(
            level,
            "acemq: message %s of %s, attempt %d, goes to %s: %s",
            message.envelope.id,
            self._queue,
            message.envelope.attempt,
            hop.target,
            ack.reason or described(ack.error),
            exc_info=None if ack.kind is AckKind.UNDECODABLE else raised,
        )
