"""What a batch of messages comes to, as values: events for windows, results, and what failed.

Decoding and the user's functions happen here; nothing is written. What cannot be worked on becomes
a dead letter later, with the message it came in. A message that adds nothing still tells how late
it is, so that windows close by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from acemq_amqp.ack import Ack, AckKind, described
from acemq_amqp.errors import DecodeError, StoreError
from acemq_amqp.eventlog.contexts import MessageContext, ResultContext
from acemq_amqp.eventlog.decoding import Decoding
from acemq_amqp.eventlog.job import Job
from acemq_amqp.eventlog.records import LogRecord, WindowInfo
from acemq_amqp.eventlog.sinks import Output, records_of
from acemq_amqp.eventlog.store import Query
from acemq_amqp.eventlog.windows.operators import Gated, Piece
from acemq_amqp.eventlog.windows.timing import EventTime
from acemq_amqp.eventlog.windows.values import TICK, Event, WindowPlan, WindowResult
from acemq_amqp.patterns.outbox import OutboxRecord


@dataclass(slots=True)
class Batch:
    """What a batch came to.

    :ivar done: the messages that were worked on; not all of them where a gate is shut
    :ivar events: what they add to windows
    :ivar outputs: results, where there are no windows; ``records`` is what is sent of them
    :ivar failed: by offset, why a message could not be worked on
    :ivar seen: ids of windows among the messages
    """

    done: Sequence[LogRecord] = ()
    events: list[Event] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    records: list[OutboxRecord] = field(default_factory=list)
    failed: dict[int, Exception] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)


class Cycle:
    """Works batches of one query over one stream out.

    :param plan: how its windows are folded; None where it has none
    :ivar read: publish time of the last message that had one; 0.0 where there was none
    """

    def __init__(self, job: Job, query: Query, plan: WindowPlan | None, decoding: Decoding) -> None:
        self._job = job
        self._query = query
        self._plan = plan
        self._decoding = decoding
        timing = None if plan is None else plan.timing
        self._event_time = timing if isinstance(timing, EventTime) else None
        self._ticks = plan is not None and self._event_time is None
        self.read = 0.0

    async def batch(self, records: Sequence[LogRecord], fresh: set[str], now: float) -> Batch:
        """What messages come to.

        :param fresh: ids of windows among them that were not handled before
        :param now: stands for publish times, where no message has told one
        :raises StoreError: a payload's store cannot be reached now
        """
        batch, unseen = Batch(done=records), set(fresh)
        for place, record in enumerate(records):
            window = record.window
            if window is not None and window.id not in unseen:
                continue
            try:
                await self._add(batch, record, now)
            except Gated:
                batch.done = records[:place]
                break
            except StoreError:
                raise
            except Exception as failure:
                batch.failed[record.offset] = failure
                self._tick(batch, record, now)
            if window is not None:
                unseen.discard(window.id)
                batch.seen.append(window.id)
        return batch

    async def _add(self, batch: Batch, record: LogRecord, now: float) -> None:
        payload = await self._decoding.payload(record)
        pieces = self._job.before.apply(payload, MessageContext(record))
        if self._plan is None:
            outputs = self._outputs(record, pieces)
            batch.records += records_of(self._job.sink, outputs, now)
            batch.outputs += outputs
        elif pieces:
            self.read = record.time or self.read or now
            batch.events += [self._event(record, key, value) for key, value in pieces]
        else:
            self._tick(batch, record, now)

    def _event(self, record: LogRecord, key: str, payload: Any) -> Event:
        at = self.read if self._event_time is None else self._event_time.time_of(payload)
        return Event(record.lane, key, at, payload, record.offset)

    def _tick(self, batch: Batch, record: LogRecord, now: float) -> None:
        self.read = record.time or self.read or now
        if self._ticks:
            batch.events.append(Event(record.lane, "", self.read, TICK, record.offset))

    def _outputs(self, record: LogRecord, pieces: Sequence[Piece]) -> list[Output]:
        return [
            Output(self._id(record.stream, record.offset, record.id, number), record.lane, *piece)
            for number, piece in enumerate(pieces)
        ]

    def results(self, results: Iterable[WindowResult]) -> list[Output]:
        """Results of windows as they go out, after what is done to results."""
        return [output for result in results for output in self._after(result)]

    def _after(self, result: WindowResult) -> list[Output]:
        window = WindowInfo(
            result.key, result.start, result.end, result.revision, result.id, result.replaces
        )
        pieces = self._job.after.apply(result.data, ResultContext(result.lane, window))
        outputs = []
        for number, (_, payload) in enumerate(pieces):
            id, *replaced = (_piece(each, number) for each in (result.id, *result.replaces))
            told = replace(window, id=id, replaces=tuple(replaced))
            outputs.append(Output(id, result.lane, result.key, payload, told))
        return outputs

    def late(self, events: Iterable[Event], stream: str) -> list[Output]:
        """Late events, for the log of their own, in their own lanes."""
        numbers: dict[int, int] = {}
        outputs = []
        for event in events:
            number = numbers[event.offset] = numbers.get(event.offset, 0) + 1
            id = self._id(stream, event.offset, "late", number)
            outputs.append(Output(id, event.lane, event.lane, event.payload))
        return outputs

    def _id(self, *of: object) -> str:
        """The same whenever the same is made again."""
        told = "\n".join(map(str, (self._query.id, self._query.generation, *of)))
        return sha256(told.encode(errors="surrogatepass")).hexdigest()


def _piece(id: str, number: int) -> str:
    """The id of one of the pieces that a result was made into."""
    return f"{id}.{number}" if number else id


def reason_of(failure: Exception) -> str:
    """Why a message is a dead letter, in a line."""
    if isinstance(failure, DecodeError):
        return Ack(AckKind.UNDECODABLE, failure).reason
    return f"the query could not work on it: {described(failure)}"
