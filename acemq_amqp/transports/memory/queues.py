"""Classic and quorum queues: messages that are there until somebody settles them.

Every operation leaves a queue settled: nothing expired at its head, nothing above
its limit, nobody waiting who could be served, and its next expiry on the timetable.
A quorum queue differs in what comes back: it counts, it knows a limit, and what was
given back goes before the rest where there is one, and to the end where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Literal, TypeAlias

from acemq_amqp.core.ports import Arrival
from acemq_amqp.properties import Properties
from acemq_amqp.topology import QueueDeclaration
from acemq_amqp.transports.memory.arguments import QueueOptions
from acemq_amqp.transports.memory.channels import Channel
from acemq_amqp.transports.memory.consumers import Consumer
from acemq_amqp.transports.memory.messages import Entry, Message
from acemq_amqp.transports.memory.ready import Ready
from acemq_amqp.transports.memory.refusals import pulled_singly
from acemq_amqp.transports.memory.runtime import Runtime
from acemq_amqp.transports.memory.stores import Store

Reason: TypeAlias = Literal["expired", "rejected", "maxlen", "delivery_limit"]
Bury: TypeAlias = Callable[["Queue", Message, Reason], None]

#: before every position that a publish can give
_FRONT = -(2**62)


class Queue(Store):
    """A queue. Used under the broker's lock."""

    def __init__(
        self,
        declaration: QueueDeclaration,
        options: QueueOptions,
        owner: object | None,
        runtime: Runtime,
        delete: Callable[[Store], None],
        bury: Bury,
    ) -> None:
        super().__init__(declaration, options, owner, runtime, delete)
        self._bury = bury
        self._quorum = options.kind == "quorum"
        self._limited = options.max_length is not None or options.max_bytes is not None
        self._rejects = self._limited and options.overflow != "drop-head"
        #: whether anything here may expire
        self._timed = options.ttl is not None
        self._ready = Ready(options.max_priority)
        self._front = count(_FRONT)
        self._alarm_at: float | None = None
        self._unused_since = 0.0
        self.used()

    # ------------------------------------------------------------ messages

    @property
    def depth(self) -> int:
        return len(self._ready)

    def entries(self) -> Iterator[Entry]:
        return iter(self._ready)

    def publish(self, message: Message) -> bool:
        if self._rejects and self._over(1, len(message.body)):
            if self.options.overflow == "reject-publish-dlx":
                self._bury(self, message, "maxlen")
            return False
        expires_at = self._expiry(message)
        entry = Entry(message, next(self._positions), expires_at)
        self._ready.append(entry)
        # A consumer that waits gets even what would expire, or be dropped, at once.
        if self.roster:
            self._serve()
        if self._limited or expires_at is not None:
            self._timed |= expires_at is not None
            self._tidy()
        return True

    def pull(self, channel: Channel) -> Arrival | None:
        if self._quorum and self.options.single_active:
            raise pulled_singly(self.name)
        self.used()
        self._tidy()
        return self._deliver(channel, None) if self._ready else None

    def purge(self) -> int:
        return self._ready.clear()

    def restart(self) -> None:
        if not self._quorum:
            kept = [entry for entry in self._ready if entry.message.persistent]
            self._ready.clear()
            for entry in kept:
                self._ready.append(entry)
        self.used()

    # ------------------------------------------------------------ settling

    def settled(self, entry: Entry, consumer: Consumer | None) -> None:
        self._returned(consumer)
        if self._ready:
            self.refresh()

    def give_back(self, entry: Entry, consumer: Consumer | None, *, closing: bool) -> None:
        self._returned(consumer)
        entry.redelivered = True
        if self.deleted:
            return
        if self._quorum:
            self._give_back_counted(entry, closing)
        else:
            self._ready.put_back(entry)

    def rejected(self, entry: Entry, consumer: Consumer | None) -> None:
        self._returned(consumer)
        if not self.deleted:
            self._bury(self, entry.message, "rejected")

    def _give_back_counted(self, entry: Entry, closing: bool) -> None:
        entry.returns += 1
        limit = self.options.delivery_limit
        if limit is not None and entry.returns > limit:
            self._bury(self, entry.message, "delivery_limit")
        elif limit is None and not closing:
            entry.position = next(self._positions)
            self._ready.append(entry)
        else:
            entry.position = next(self._front)
            self._ready.put_back(entry)

    # ------------------------------------------------------------ serving

    def refresh(self) -> None:
        if not self.deleted:
            self._tidy()
            self._serve()

    def _serve(self) -> None:
        calls, ready = self._runtime.calls, self._ready
        while ready and (consumer := self.roster.next()) is not None:
            consumer.in_flight += 1
            calls.note((consumer.arrived, self._deliver(consumer.channel, consumer)))

    def _deliver(self, channel: Channel, consumer: Consumer | None) -> Arrival:
        entry = self._ready.pop()
        self.unsettled += 1
        if self._timed:
            self._drop_expired()
        return channel.hand_over(self, entry, self._properties(entry), consumer)

    @staticmethod
    def _properties(entry: Entry) -> Properties:
        properties = entry.message.properties
        if not entry.returns:
            return properties
        counted = properties.headers.edited(put={"x-delivery-count": entry.returns})
        return properties._replace(headers=counted)

    # ------------------------------------------------------------ limits and expiry

    def _tidy(self) -> None:
        if self._limited and not self._rejects:
            while self._over(0, 0):
                self._bury(self, self._ready.pop().message, "maxlen")
        if self._timed:
            self._drop_expired()

    def _drop_expired(self) -> None:
        head = self._ready.head()
        while head is not None and self._expired(head):
            self._bury(self, self._ready.pop().message, "expired")
            head = self._ready.head()
        if head is not None and head.expires_at is not None:
            self._set_alarm(head.expires_at)

    def _over(self, more: int, more_bytes: int) -> bool:
        longest, largest = self.options.max_length, self.options.max_bytes
        if longest is not None and len(self._ready) + more > longest:
            return True
        return largest is not None and self._ready.bytes + more_bytes > largest

    def _expiry(self, message: Message) -> float | None:
        if not self._timed and message.expiration is None:
            return None
        waits = [w for w in (self.options.ttl, message.expiration) if w is not None]
        return self._runtime.clock.monotonic() + min(waits) if waits else None

    def _expired(self, entry: Entry) -> bool:
        moment = entry.expires_at
        return moment is not None and self._runtime.clock.reached(moment)

    def _set_alarm(self, moment: float) -> None:
        if self._alarm_at is None or moment < self._alarm_at:
            self._alarm_at = moment
            self._runtime.timetable.at(moment, self._alarm)

    def _alarm(self) -> None:
        self._alarm_at = None
        self.refresh()

    # ------------------------------------------------------------ a queue that nobody uses

    def used(self) -> None:
        if self.options.expires is not None:
            self._unused_since = self._runtime.clock.monotonic()
            self._watch(self._unused_since)

    def _watch(self, since: float) -> None:
        assert self.options.expires is not None
        self._runtime.timetable.at(since + self.options.expires, lambda: self._expire(since))

    def _expire(self, since: float) -> None:
        if since == self._unused_since and not self.roster and not self.deleted:
            self._delete(self)
