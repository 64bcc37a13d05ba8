"""Streams: a log that reading does not empty.

Each consumer has a cursor of its own, and an acknowledgement only makes room in its
prefetch. The log is kept in segments, and retention drops whole ones, when a new one
is begun and never the last: so a stream always keeps somewhat more than it was asked to.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from acemq_amqp.core.ports import Arrival
from acemq_amqp.topology import QueueDeclaration
from acemq_amqp.transports.memory.arguments import QueueOptions
from acemq_amqp.transports.memory.channels import Channel
from acemq_amqp.transports.memory.consumers import Consumer
from acemq_amqp.transports.memory.messages import Entry, Message
from acemq_amqp.transports.memory.offsets import Since, Start
from acemq_amqp.transports.memory.refusals import not_on_streams
from acemq_amqp.transports.memory.runtime import Runtime
from acemq_amqp.transports.memory.stores import Store


@dataclass(slots=True)
class _Segment:
    first: int
    bytes: int = 0
    last_at: float = 0.0


class Stream(Store):
    """A stream. Used under the broker's lock."""

    def __init__(
        self,
        declaration: QueueDeclaration,
        options: QueueOptions,
        runtime: Runtime,
        delete: Callable[[Store], None],
    ) -> None:
        super().__init__(declaration, options, None, runtime, delete)
        self._log: list[Entry] = []
        self._times: list[float] = []
        self._first = 0
        self._segments = [_Segment(0)]

    @property
    def depth(self) -> int:
        return len(self._log)

    @property
    def end(self) -> int:
        """The offset that the next message will have."""
        return self._first + len(self._log)

    def entries(self) -> Iterator[Entry]:
        return iter(self._log)

    def publish(self, message: Message) -> bool:
        now = self._runtime.clock.now()
        if self._segments[-1].bytes >= self.options.segment_bytes:
            self._segments.append(_Segment(self.end))
            self._retain(now)
        segment = self._segments[-1]
        segment.bytes += len(message.body)
        segment.last_at = now
        self._log.append(Entry(message, next(self._positions)))
        self._times.append(now)
        if self.roster:
            self.refresh()
        return True

    def pull(self, channel: Channel) -> Arrival | None:
        raise not_on_streams("basic.get", self.name)

    def purge(self) -> int:
        raise not_on_streams("queue.purge", self.name)

    def restart(self) -> None:
        """Everything was on disk."""

    # ------------------------------------------------------------ reading

    def place(self, consumer: Consumer, start: Start) -> None:
        """Sets a consumer's cursor."""
        consumer.cursor = self._offset(start)

    def _offset(self, start: Start) -> int:
        if isinstance(start, Since):
            # Timestamps are whole seconds on the wire; nothing of that second is left out.
            return self._first + bisect_left(self._times, float(int(start)))
        if isinstance(start, int):
            return start
        return {"first": self._first, "last": self.end - 1, "next": self.end}[start]

    def settled(self, entry: Entry, consumer: Consumer | None) -> None:
        self._returned(consumer)
        self.refresh()

    def give_back(self, entry: Entry, consumer: Consumer | None, *, closing: bool) -> None:
        if not closing:
            raise not_on_streams("basic.nack and basic.reject", self.name)
        self._returned(consumer)

    def rejected(self, entry: Entry, consumer: Consumer | None) -> None:
        raise not_on_streams("basic.nack and basic.reject", self.name)

    def refresh(self) -> None:
        if not self.deleted:
            for consumer in self.roster:
                self._feed(consumer)

    def _feed(self, consumer: Consumer) -> None:
        # Below retention reading goes on with the oldest, also for one that was overtaken.
        consumer.cursor = max(consumer.cursor, self._first)
        while consumer.willing and consumer.cursor < self.end:
            entry = self._log[consumer.cursor - self._first]
            consumer.cursor += 1
            if consumer.wanted and not consumer.wanted(entry.message.properties.headers):
                continue
            consumer.in_flight += 1
            self.unsettled += 1
            self._runtime.calls.note((consumer.arrived, self._arrival(entry, consumer)))

    def _arrival(self, entry: Entry, consumer: Consumer) -> Arrival:
        properties = entry.message.properties
        placed = properties.headers.edited(put={"x-stream-offset": entry.position})
        return consumer.channel.hand_over(
            self, entry, properties._replace(headers=placed), consumer
        )

    # ------------------------------------------------------------ retention

    def _retain(self, now: float) -> None:
        while len(self._segments) > 1 and self._too_old_or_large(now):
            del self._segments[0]
            dropped = self._segments[0].first - self._first
            del self._log[:dropped], self._times[:dropped]
            self._first += dropped

    def _too_old_or_large(self, now: float) -> bool:
        age, largest = self.options.max_age, self.options.max_bytes
        if age is not None and self._segments[0].last_at < now - age:
            return True
        return largest is not None and sum(s.bytes for s in self._segments) > largest
