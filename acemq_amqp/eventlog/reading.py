"""What all readers of a group share: the log, the store, the group's name and how it begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from acemq_amqp.core.ports import Work
from acemq_amqp.envelope import fresh_id
from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog.attached import Source
from acemq_amqp.eventlog.decoding import Decoding
from acemq_amqp.eventlog.log import Log
from acemq_amqp.eventlog.modes import Mode, Moment
from acemq_amqp.eventlog.records import LogRecord
from acemq_amqp.eventlog.settings import LogSettings
from acemq_amqp.eventlog.store import LogStore, Position


@dataclass(frozen=True, slots=True)
class Reading:
    """A group that reads a log.

    :ivar wake: tells that something was written to the store's outbox
    :ivar member: who reads, among the group's other members
    """

    source: Source
    store: LogStore
    group: str
    mode: Mode
    settings: LogSettings
    decoding: Decoding
    wake: Callable[[], None]
    member: str = field(default_factory=fresh_id)

    @property
    def work(self) -> Work:
        """What the flavour runs on."""
        return self.source.connection.work

    @property
    def log(self) -> Log:
        """The log that is read."""
        return self.source.log

    def now(self) -> float:
        """The clock that deadlines are moments of."""
        return self.work.clock.monotonic()

    async def placed(self, stream: str) -> Position:
        """Where the group stands; it is put where its mode says if it does not stand anywhere.

        :raises ConfigurationError: the mode's offset is not in the stream
        """
        position = await self.store.position(self.group, stream)
        if position is not None:
            return position
        start = await self._start(stream)
        anchor = await self.log.id_at(stream, start - 1) if start > 0 else ""
        return await self.store.create(self.group, stream, start, anchor)

    async def placed_everywhere(self) -> None:
        """Puts the group into every stream of the log."""
        for stream in self.log.streams:
            await self.placed(stream)

    async def unseen(self, records: Sequence[LogRecord]) -> list[LogRecord]:
        """Those that are no closed window which this group has handled, or that is twice here."""
        ids = {record.window.id for record in records if record.window is not None}
        if not ids:
            return list(records)
        fresh = await self.store.unseen(self.group, list(ids))
        kept: list[LogRecord] = []
        for record in records:
            if record.window is None or record.window.id in fresh:
                kept.append(record)
                fresh.discard(record.window.id if record.window else "")
        return kept

    async def _start(self, stream: str) -> int:
        if self.mode == "new":
            return await self.log.mark(stream)
        if isinstance(self.mode, Moment):
            return await self.log.at(stream, self.mode.at)
        ends = await self.log.ends(stream)
        if self.mode == "all":
            return ends.oldest
        return within(self.mode, stream, ends.oldest, ends.tail)


def within(offset: int, stream: str, oldest: int, tail: int) -> int:
    """An offset that is in the stream, or the one after its end.

    :raises ConfigurationError: retention has passed it, or nothing has come so far
    """
    if offset < oldest:
        raise ConfigurationError(
            f"acemq: offset {offset} of stream {stream!r} was removed by retention; the oldest is "
            f"{oldest}"
        )
    if offset > tail + 1:
        raise ConfigurationError(
            f"acemq: offset {offset} is past the end of stream {stream!r}, whose last is {tail}"
        )
    return offset
