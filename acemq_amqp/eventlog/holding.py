"""A stream held whole for a group: what is due is taken in order, and committed as it is done.

The hold is a lease. Its commits begin it anew; while nothing is committed it is renewed. One that
was passed to another reader, or ended by a seek, raises at its next write.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from acemq_amqp.core.ports import Deadline
from acemq_amqp.errors import StoreError
from acemq_amqp.eventlog.attached import Attached, attached
from acemq_amqp.eventlog.errors import LeaseLost
from acemq_amqp.eventlog.reading import Reading
from acemq_amqp.eventlog.records import LogRecord
from acemq_amqp.eventlog.store import Fence, Position, Step

log = logging.getLogger("acemq_amqp")

#: Messages that the broker sends ahead.
PREFETCH = 1000
#: A reader with nothing to do looks so often whether its group was sought; in seconds.
_LOOK = 0.5


@dataclass(frozen=True, slots=True)
class Done:
    """How far a hold has come: all below ``upto``, whose last message is ``anchor``."""

    upto: int
    anchor: str


@dataclass(slots=True)
class Held:
    """One hold, from when it was taken until it is given back.

    :ivar done: what is done, committed or not
    :ivar unfinished: before this offset a former holder had begun and not finished
    :ivar begun: before this offset a batch ends that was begun here, as committed
    """

    reading: Reading
    fence: Fence
    stands: Attached
    position: Position
    done: Done
    committed: Done
    written_at: float
    _rows: dict[str, int] = field(default_factory=dict)
    begun: int = 0
    _looked_at: float = 0.0
    #: offset of the last due message that was taken, and how far all was taken then
    _taken: tuple[int, Done] = (-1, Done(0, ""))

    @property
    def unfinished(self) -> int:
        """Before this offset a former holder had begun, and not finished; 0 if it had not."""
        return self.position.unfinished

    @property
    def stream(self) -> str:
        """The stream that is held."""
        return self.fence.stream

    async def take(self, most: int, deadline: Deadline) -> list[LogRecord]:
        """What is due, oldest first; marks are passed over. Empty at the deadline.

        To be called once all that was taken before is finished.
        """
        records = await self.stands.take(most, deadline)
        due = [record for record in records if self._due(record)]
        reached = Done(self.stands.upto, self.stands.last)
        if due:
            self._taken = due[-1].offset, reached
        elif records:
            self.done = reached
        return due

    def _due(self, record: LogRecord) -> bool:
        if record.mark:
            return False
        if not self._rows and record.offset >= self.position.next:
            return True
        return record.offset >= self._rows.get(record.lane, self.position.next)

    def pass_over(self, but: Sequence[LogRecord]) -> None:
        """Notes that of what was taken last nothing is to be done, but for these."""
        _, reached = self._taken
        if but:
            self._taken = but[-1].offset, reached
        else:
            self.done = reached

    def finish(self, record: LogRecord) -> None:
        """Notes that a message, and all before it, is done."""
        last, reached = self._taken
        self.done = reached if record.offset == last else Done(record.offset + 1, record.id)

    @property
    def owes(self) -> bool:
        """Whether something is done that is not committed."""
        return self.done.upto > self.committed.upto

    async def commit(self, step: Step) -> None:
        """Writes a step at what is done.

        :raises LeaseLost: the hold was passed; nothing was written
        """
        step = replace(step, upto=self.done.upto, anchor=self.done.anchor)
        at = self.reading.now()
        if not await self.reading.store.commit(self.fence, self.reading.member, step):
            raise lost(self.fence)
        self.committed, self.written_at, self.begun = self.done, at, step.begun

    async def settle(self, begun: Sequence[LogRecord] = (), step: Step | None = None) -> None:
        """Commits what is done, and that these are begun now; nothing where that is so already."""
        upto = begun[-1].offset + 1 if begun else 0
        if self.owes or upto != self.begun or step is not None:
            await self.commit(replace(step or Step(0), begun=upto))

    async def back_out(self, begun: int, attempts: int) -> None:
        """Says that what was taken and not committed is not done, and ended nobody.

        :param begun: offset before which a former holder had begun; 0 where it had not
        :param attempts: how often the message that comes next was begun alone, and ended somebody
        :raises LeaseLost: the hold was passed
        """
        self.done = self.committed
        if self.begun or self.unfinished:
            await self.commit(Step(0, begun=begun, attempts=attempts))

    async def keep(self) -> None:
        """Renews the hold, where a third of it has passed without a write.

        :raises LeaseLost: the hold was passed
        """
        now = self.reading.now()
        if now - self.written_at < self.reading.store.lease / 3:
            return
        if self.fence not in await self.reading.store.renew([self.fence], self.reading.member):
            raise lost(self.fence)
        self.written_at = now

    async def look(self) -> None:
        """Looks now and then whether the hold was passed, while nothing is written.

        :raises LeaseLost: it was
        """
        now = self.reading.now()
        if now - max(self.written_at, self._looked_at) < _LOOK:
            return
        self._looked_at = now
        fence = self.fence
        position = await self.reading.store.position(fence.group, fence.stream)
        if position is None or position.fence != fence:
            raise lost(fence)

    async def leave(self) -> None:
        """Gives the hold back, and ends the attachment."""
        await self.stands.close()
        try:
            await self.reading.store.release(self.fence, self.reading.member)
        except StoreError as failure:
            log.warning("acemq: a lease of %s ends by itself: %s", self.stream, failure)


async def held(reading: Reading, stream: str, *, placed: bool = False) -> Held | None:
    """Takes a stream whole, and attaches; None where another reads it.

    :param placed: the group stands there, or is not to be read; else it is put there
    :raises LogReplaced: the stream is another one
    :raises RetentionPassed: messages are gone that were not read
    """
    if not placed:
        await reading.placed(stream)
    position = await reading.store.hold(reading.group, stream, reading.member)
    if position is None:
        return None
    at = reading.now()
    try:
        stands = await attached(reading.source, position, prefetch=PREFETCH)
    except BaseException:
        await reading.store.release(position.fence, reading.member)
        raise
    done = Done(stands.upto, stands.last)
    rows = {row.lane: row.next for row in position.lanes}
    begins = Done(min((position.next, *rows.values())), "")  # before what retention took
    return Held(reading, position.fence, stands, position, done, begins, at, rows)


def lost(fence: Fence) -> LeaseLost:
    """The error of a hold that was passed."""
    return LeaseLost(
        f"acemq: group {fence.group!r} no longer reads stream {fence.stream!r} here: its lease ran "
        "out, or it was sought; what was not committed is read again"
    )
