"""One cycle of a query, as values: from the messages of a batch to what is to be written.

Decoding, the user's functions and folding happen here; nothing is written. What cannot be read or
counted becomes a dead letter, with the message it came in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from acemq_amqp.errors import MessageError, StoreError
from acemq_amqp.eventlog.decoding import Decoding
from acemq_amqp.eventlog.job import Job
from acemq_amqp.eventlog.records import LogRecord, WindowInfo
from acemq_amqp.eventlog.sinks import Output
from acemq_amqp.eventlog.store import Query
from acemq_amqp.eventlog.windows.operators import Gated, Piece
from acemq_amqp.eventlog.windows.timing import EventTime
from acemq_amqp.eventlog.windows.values import Event, WindowPlan, WindowResult
from acemq_amqp.message import Message

#: Results of one message that are told apart by their number.
_FIRST: Final = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """What a query's function may know of the message: its second argument, if it takes one."""

    record: LogRecord

    @property
    def lane(self) -> str:
        """The message's lane."""
        return self.record.lane

    @property
    def id(self) -> str:
        """The message's id."""
        return self.record.id

    @property
    def offset(self) -> int:
        """Its place in its stream."""
        return self.record.offset

    @property
    def time(self) -> datetime | None:
        """When it was pushed; None where that was not told."""
        at = self.record.time
        return datetime.fromtimestamp(at, UTC) if at else None

    @property
    def headers(self) -> Mapping[str, Any]:
        """The application's headers."""
        return Message.received(None, self.record.arrival).headers


@dataclass(frozen=True, slots=True)
class Resulting:
    """What a result's function may know of it."""

    lane: str
    window: WindowInfo


@dataclass(slots=True)
class Batch:
    """What a batch came to.

    :ivar count: how many of its messages were worked on; fewer than all where a gate is shut
    :ivar events: what they add to windows
    :ivar outputs: results, where there are no windows
    :ivar failed: messages that could not be worked on, and why
    :ivar seen: ids of windows among the messages
    """

    count: int = 0
    events: list[Event] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    failed: list[tuple[LogRecord, Exception]] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)


class Cycle:
    """Works batches of one query out.

    :param plan: how its windows are folded; None where it has none
    """

    def __init__(self, job: Job, query: Query, plan: WindowPlan | None, decoding: Decoding) -> None:
        self._job = job
        self._query = query
        self._plan = plan
        self._decoding = decoding
        timing = None if plan is None else plan.timing
        self._event_time = timing if isinstance(timing, EventTime) else None
        #: publish time of the last message that had one
        self.read = 0.0

    async def batch(self, records: Sequence[LogRecord], fresh: set[str], now: float) -> Batch:
        """What messages come to.

        :param fresh: ids of windows among them that were not handled before
        :param now: stands for publish times, where no message has told one
        :raises StoreError: a payload's store cannot be reached now
        """
        batch = Batch()
        for record in records:
            if record.window is not None and record.window.id not in fresh:
                batch.count += 1
                continue
            try:
                await self._add(batch, record, now)
            except Gated:
                break
            except StoreError:
                raise
            except Exception as failure:
                batch.failed.append((record, failure))
            batch.count += 1
        return batch

    async def _add(self, batch: Batch, record: LogRecord, now: float) -> None:
        payload = await self._decoding.payload(record)
        pieces = self._job.before.apply(payload, Standing(record))
        self.read = record.time or self.read or now
        if self._plan is None:
            batch.outputs += self._outputs(record, pieces)
        else:
            batch.events += [self._event(record, key, value) for key, value in pieces]
        if record.window is not None:
            batch.seen.append(record.window.id)

    def _event(self, record: LogRecord, key: str, payload: Any) -> Event:
        at = self.read if self._event_time is None else self._event_time.time_of(payload)
        return Event(record.lane, key, at, payload, record.offset)

    def _outputs(self, record: LogRecord, pieces: Sequence[Piece]) -> list[Output]:
        query = self._query
        made = []
        for number, (key, payload) in enumerate(pieces):
            told = f"{query.id} {query.generation} {record.stream} {record.offset} {number}"
            made.append(Output(sha256(told.encode()).hexdigest(), record.lane, key, payload))
        return made

    def results(self, results: Sequence[WindowResult]) -> list[Output]:
        """Results of windows as they go out, after what is done to results."""
        return [output for result in results for output in self._after(result)]

    def _after(self, result: WindowResult) -> list[Output]:
        window = WindowInfo(result.key, result.start, result.end, result.revision, result.id)
        pieces = self._job.after.apply(result.data, Resulting(result.lane, window))
        outputs = []
        for number, (_, payload) in enumerate(pieces):
            id = result.id if number == _FIRST else f"{result.id}.{number}"
            told = WindowInfo(window.key, window.start, window.end, window.revision, id)
            outputs.append(Output(id, result.lane, result.key, payload, told))
        return outputs

    def late(self, events: Sequence[Event], stream: str) -> list[Output]:
        """Late events, for the log of their own."""
        query = self._query
        made = []
        for number, event in enumerate(events):
            told = f"{query.id} {query.generation} {stream} {event.offset} late {number}"
            id = sha256(told.encode()).hexdigest()
            made.append(Output(id, event.lane, event.key, event.payload))
        return made


def failures_of(
    failed: Sequence[tuple[Event, MessageError]], records: Sequence[LogRecord]
) -> list[tuple[LogRecord, Exception]]:
    """The messages whose events could not be counted."""
    by_offset = {record.offset: record for record in records}
    return [(by_offset[event.offset], error) for event, error in failed]
