"""Carrying messages to the broker until their outcome is known.

Every publish ends in one of three ways that callers can tell apart: confirmed,
refused (nothing stored, or perhaps), unknown. The id is fixed before the first
try, so an unknown one that is repeated can be recognised.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from acemq_amqp.core.observer import Observing
from acemq_amqp.core.ports import (
    Clock,
    Confirmed,
    Deadline,
    Link,
    Outcome,
    Outgoing,
    Pending,
    Refused,
    Unknown,
    Unsent,
)
from acemq_amqp.core.supervisor import Supervisor
from acemq_amqp.core.window import Window
from acemq_amqp.errors import (
    BatchError,
    BrokerError,
    ConnectionLost,
    PublishError,
    PublishingPaused,
    PublishRefused,
    PublishUnknown,
)

_MIB = 1024 * 1024
#: Labels of a routing key past so many values would make a metrics store grow without end.
_MOST_LABELS = 200
#: AMQP's own reply code, so that a refusal of this message is told from one never handed over.
_CONTENT_TOO_LARGE = 311
_OF_ANOTHER = 406


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The broker took responsibility for a message.

    ``routed`` is False where no queue wanted it and the publisher does not mind
    (``mandatory=False``); ``reason`` then has the broker's words. ``repeated`` counts
    further tries after an outcome that was unknown: the message may be there twice,
    under the same id.
    """

    message_id: str
    routed: bool = True
    reason: str = ""
    repeated: int = 0


Told = PublishResult | PublishError


class Publishing:
    """What all publishers of a connection share: the link, the window, the known exchanges."""

    def __init__(
        self,
        clock: Clock,
        sending: Supervisor,
        control: Supervisor,
        window: Window,
        observing: Observing,
        *,
        retry_unknown: bool,
        max_message_size: int | None,
    ) -> None:
        self._clock = clock
        self._sending = sending
        self._control = control
        self.window = window
        self._observing = observing
        self._retry_unknown = retry_unknown
        self._max_message_size = max_message_size
        self._small = _MIB if max_message_size is None else min(_MIB, max_message_size)
        self._exchanges: set[str] = {""}
        self._labels: set[str] = set()
        self._stopped = False
        self._confirmed_at: float | None = None

    # ------------------------------------------------------------ one message

    async def send(
        self, outgoing: Outgoing, deadline: Deadline, *, mandatory: bool
    ) -> PublishResult:
        """Carries one message to its outcome, and raises unless it was confirmed."""
        started = time.perf_counter() if self._observing.watched else 0.0
        told = await self._finished(outgoing, None, deadline, mandatory)
        self._count(outgoing, told, started)
        if isinstance(told, PublishError):
            raise told
        return told

    async def send_many(
        self, batch: Sequence[Outgoing], deadline_of: Callable[[], Deadline], *, mandatory: bool
    ) -> list[PublishResult]:
        """Pipelines a batch in order, and gives an outcome for each.

        :param deadline_of: asked once a message, so that each has the whole time-out
        :raises BatchError: some were not confirmed; it carries every outcome
        """
        started = time.perf_counter() if self._observing.watched else 0.0
        begun: list[tuple[Outgoing, Pending | PublishError | None, Deadline]] = []
        for outgoing in batch:
            deadline = deadline_of()
            begun.append((outgoing, await self._begin(outgoing, deadline), deadline))
        told: list[Told] = []
        for outgoing, first, deadline in begun:
            if isinstance(first, PublishError):
                told.append(first)
            else:
                told.append(await self._finished(outgoing, first, deadline, mandatory))
            self._count(outgoing, told[-1], started)
        return self._all(told)

    @staticmethod
    def _all(told: list[Told]) -> list[PublishResult]:
        results = [outcome for outcome in told if isinstance(outcome, PublishResult)]
        if len(results) == len(told):
            return results
        failures = [outcome for outcome in told if isinstance(outcome, PublishError)]
        raise BatchError(
            f"acemq: {len(failures)} of {len(told)} messages were not confirmed; see .outcomes, "
            f"one for each payload in order. The first: {failures[0]}",
            told,
        ) from failures[0]

    async def login(self, deadline: Deadline) -> str:
        """As whom it publishes: another's ``user_id`` is refused.

        :raises ConnectionLost: no connection in time
        """
        return (await self._sending.connected(deadline)).broker.login

    def since_confirm(self) -> float | None:
        """Seconds since the broker last confirmed a message; None where it has confirmed none."""
        last = self._confirmed_at
        return None if last is None else self._clock.monotonic() - last

    async def stop(self, deadline: Deadline) -> bool:
        """Refuses further messages, then waits until none is unconfirmed; False at the deadline."""
        self._stopped = True
        return await self.window.emptied(deadline)

    # ------------------------------------------------------------ carrying

    async def _begin(self, outgoing: Outgoing, deadline: Deadline) -> Pending | PublishError | None:
        """Hands a message to the link; None where it has to be tried in :meth:`_finished`."""
        try:
            submitted = await self._submit(outgoing, deadline)
        except BrokerError:
            return None
        if isinstance(submitted, Refused):
            return told_of(outgoing, submitted, True, 0)  # type: ignore[return-value]
        return None if isinstance(submitted, Unsent) else submitted

    async def _finished(
        self, outgoing: Outgoing, first: Pending | None, deadline: Deadline, mandatory: bool
    ) -> Told:
        doubt: Unknown | None = None
        tries = 0
        while True:
            outcome, over = await self._once(outgoing, first, deadline)
            first = None
            tries += 1
            if isinstance(outcome, Unknown):
                doubt = outcome
            elif isinstance(outcome, Unsent):
                # an earlier try may have been stored: that is what has to be told
                outcome = outcome if doubt is None else doubt
            if over or not self._again(outcome, deadline):
                return told_of(outgoing, outcome, mandatory, tries - 1)

    async def _once(
        self, outgoing: Outgoing, first: Pending | None, deadline: Deadline
    ) -> tuple[Outcome, bool]:
        """One try, and whether it was the last: there is no link, or will be none in time."""
        if first is None:
            try:
                submitted = await self._submit(outgoing, deadline)
            except BrokerError as failure:
                return Unsent(str(failure)), True
            if isinstance(submitted, (Refused, Unsent)):
                return submitted, False
            first = submitted
        outcome = await first.outcome(deadline)
        if isinstance(outcome, Refused) and outcome.code == 404:
            self._exchanges.discard(outgoing.exchange)
        return outcome, False

    async def _submit(self, outgoing: Outgoing, deadline: Deadline) -> Pending | Refused | Unsent:
        link = self._sending.link or await self._sending.connected(deadline)
        size = outgoing.size
        if size > self._small and (refused := self._too_large(link, outgoing)):
            return refused
        if outgoing.user_id is not None and outgoing.user_id != link.broker.login:
            return _another_user(outgoing.user_id, link.broker.login)
        if outgoing.exchange not in self._exchanges and (
            missing := await self._missing(outgoing.exchange, deadline)
        ):
            return missing
        if not self.window.try_take(size) and not await self.window.take(size, deadline):
            return self._no_place(link)
        if self._stopped:  # after the place was taken: a close either waits for it, or is seen
            self.window.give(size)
            return Refused("this connection is closing and takes no more; open a new one")
        return link.submit(outgoing, lambda outcome: self._landed(size, outcome))

    def _landed(self, size: int, outcome: Outcome) -> None:
        self.window.give(size)
        if type(outcome) is Confirmed:
            self._confirmed_at = self._clock.monotonic()

    def _again(self, outcome: Outcome, deadline: Deadline) -> bool:
        if isinstance(outcome, (Confirmed, Refused)):
            return False
        if deadline is not None and self._clock.monotonic() >= deadline:
            return False
        if isinstance(outcome, Unknown):
            return self._retry_unknown
        return isinstance(outcome, Unsent) and not outcome.paused

    async def _missing(self, exchange: str, deadline: Deadline) -> Refused | Unsent | None:
        """A publish to a missing exchange closes the channel under its neighbours: look first."""
        control = await self._control.connected(deadline)
        try:
            found = await control.look_up_exchange(exchange, deadline)
        except ConnectionLost as lost:
            return Unsent(str(lost))  # there will be another
        if found:
            self._exchanges.add(exchange)
            return None
        return Refused(f"the broker has no exchange {exchange!r}; declare it first", code=404)

    def _too_large(self, link: Link, outgoing: Outgoing) -> Refused | None:
        limit = self._max_message_size
        if limit is None:
            limit = 16 * _MIB if link.broker.version >= (4,) else 128 * _MIB
        if len(outgoing.body) <= limit:
            return None
        return Refused(
            f"its body has {len(outgoing.body)} bytes and this broker takes {limit}; "
            "put large payloads aside with a ClaimCheckCodec",
            code=_CONTENT_TOO_LARGE,
        )

    def _no_place(self, link: Link) -> Unsent:
        reason = link.blocked_reason
        if reason is not None:
            return Unsent(reason, paused=True)
        return Unsent(
            f"{self.window.count} messages are unconfirmed and no place came free in time"
        )

    # ------------------------------------------------------------ counting

    def _count(self, outgoing: Outgoing, told: Told, started: float) -> None:
        if not self._observing.watched:
            return
        labels = {
            "exchange": outgoing.exchange,
            "routing.key": self._label(outgoing.routing_key),
            "outcome": _outcome_label(told),
        }
        self._observing.count("acemq.publish.total", labels)
        self._observing.duration("acemq.publish.duration", labels, time.perf_counter() - started)

    def _label(self, key: str) -> str:
        if key not in self._labels:
            if len(self._labels) >= _MOST_LABELS:
                return "(other)"
            self._labels.add(key)
        return key


def _outcome_label(told: Told) -> str:
    if isinstance(told, PublishResult):
        return "confirmed" if told.routed else "unroutable"
    return "refused" if isinstance(told, PublishRefused) else "failed"


def _another_user(user_id: str, login: str) -> Refused:
    return Refused(
        f"its user_id is {user_id!r} and this connection is logged in as {login!r}, for which "
        "alone the broker vouches; leave user_id out",
        code=_OF_ANOTHER,
    )


def told_of(outgoing: Outgoing, outcome: Outcome, mandatory: bool, repeated: int) -> Told:
    """What the caller is told of an outcome: a result, or the error to raise."""
    id_ = outgoing.message_id
    if isinstance(outcome, Confirmed):
        if outcome.routed or not mandatory:
            return PublishResult(id_, outcome.routed, outcome.reason, repeated)
        return PublishRefused(
            f"acemq: no queue took message {id_} sent to {_where(outgoing)} ({outcome.reason}); "
            "nothing was stored. Declare the queue or its binding, or send with mandatory=False",
            message_id=id_,
            code=312,
        )
    if isinstance(outcome, Refused):
        return PublishRefused(
            f"acemq: message {id_} to {_where(outgoing)} was refused: {outcome.reason}",
            message_id=id_,
            code=outcome.code,
            stored=outcome.stored,
        )
    if isinstance(outcome, Unsent):
        return _unsent(outgoing, outcome)
    return PublishUnknown(
        f"acemq: message {id_} to {_where(outgoing)} was written and not confirmed "
        f"({outcome.reason}); it may have been stored. Send it again with the same id if its "
        "consumer recognises ids",
        message_id=id_,
    )


def _unsent(outgoing: Outgoing, outcome: Unsent) -> PublishError:
    id_ = outgoing.message_id
    if outcome.paused:
        return PublishingPaused(
            f"acemq: the broker has paused publishing ({outcome.reason}) and did not resume in "
            f"time; message {id_} to {_where(outgoing)} was not written and never turns up. "
            "Free memory or disk on the broker, then send again",
            message_id=id_,
            reason=outcome.reason,
        )
    return PublishRefused(
        f"acemq: message {id_} to {_where(outgoing)} was not sent: {outcome.reason}",
        message_id=id_,
    )


def _where(outgoing: Outgoing) -> str:
    if outgoing.exchange:
        return f"exchange {outgoing.exchange!r} with key {outgoing.routing_key!r}"
    return f"queue {outgoing.routing_key!r}"
