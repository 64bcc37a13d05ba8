"""A log: one RabbitMQ stream or several, written in lanes, with places found exactly.

A lane is always in the same stream, so its messages are in order. What is between the messages
of users are marks: a genesis at the beginning of each stream, and those by which a place is
found. The offset at which a confirmed mark turns up divides all that was confirmed before the
call from all that is pushed after it, whatever else goes on meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from acemq_amqp.codec import Codec
from acemq_amqp.codecs.bytes import BytesCodec
from acemq_amqp.core import checks
from acemq_amqp.core.connection import Connection
from acemq_amqp.core.ports import Arrival, Link
from acemq_amqp.core.publisher import Publisher
from acemq_amqp.core.publishing import PublishResult
from acemq_amqp.core.reading import StreamEnds, StreamReader, id_of, offset_of
from acemq_amqp.envelope import Envelope, fresh_id
from acemq_amqp.errors import (
    BrokerError,
    BrokerTimeout,
    ConfigurationError,
    NotFound,
)
from acemq_amqp.eventlog.founding import Founder, found, lock_name, stream_names
from acemq_amqp.eventlog.lanes import stream_index
from acemq_amqp.eventlog.records import (
    DEFAULT_LANE,
    LogRecord,
    Mark,
    checked_lane,
    lane_headers,
    mark_headers,
    record_of,
)
from acemq_amqp.naming import checked_name
from acemq_amqp.offsets import At, First, Next, Offset, Start
from acemq_amqp.retention import StreamRetention

_MOST_STREAMS: Final = 1000
#: Messages that are looked at in one go while a place is sought.
_AT_ONCE: Final = 1000
#: The broker is given so long for the next message of a stream that has one; seconds.
_PATIENCE: Final = 10.0
#: 9999, as far as a datetime goes; in seconds.
_LATEST: Final = 253_402_300_799.0
#: What the broker answers to a read of another kind of queue.
_NO_STREAM: Final = 406
#: Deliveries of a stream carry it, and a push must not: the broker writes it anew.
_OFFSET: Final = "x-stream-offset"


class Log:
    """One event log. Costs nothing until :meth:`ready`, which everything else needs.

    :param streams: how many streams it has where it is made, 1 by default; where it exists it
        has those it has, and another number that was asked for is an error
    :param retention: how much each stream keeps, where it is made
    :param codec: of what is pushed; the connection's by default
    :raises ConfigurationError: a name or number that cannot be
    """

    def __init__(
        self,
        connection: Connection,
        name: str,
        *,
        streams: int | None = None,
        retention: StreamRetention | None = None,
        codec: Codec | None = None,
    ) -> None:
        self.name = checked_name(name, "event log")
        self._connection = connection
        self._clock = connection.work.clock
        self._asked = _checked_count(streams)
        self._retention = retention
        self._codec = codec
        self._streams: tuple[str, ...] = ()
        self._deleted = False
        self._publishers: dict[str, Publisher] = {}
        lock_name(name)
        checked_name(stream_names(name, self._asked or 1)[-1], "stream")

    def __repr__(self) -> str:
        return f"Log({self.name!r}, {len(self._streams) or 'not looked up'} streams)"

    @property
    def streams(self) -> tuple[str, ...]:
        """Its streams, in their order.

        :raises NotFound: it was deleted
        :raises ConfigurationError: it is not :meth:`ready`
        """
        if self._deleted:
            raise NotFound(f"acemq: event log {self.name!r} was deleted", code=404)
        if not self._streams:
            raise ConfigurationError(
                f"acemq: event log {self.name!r} was not looked up yet: call ready() first"
            )
        return self._streams

    def stream_of(self, lane: str) -> str:
        """The stream that a lane is in: always the same.

        :raises ConfigurationError: it is not :meth:`ready`, or that can be no lane
        """
        streams = self.streams
        return streams[stream_index(checked_lane(lane), len(streams))]

    # ------------------------------------------------------------ making it, deleting it

    async def ready(self, create: bool = True) -> None:
        """Looks the log up, and makes it where it is not there. May be repeated.

        How much an existing log keeps is left as it is.

        :raises NotFound: it is not there, and ``create`` is False
        :raises ConfigurationError: it has another number of streams than was asked for, or its
            name is that of a queue that is no stream
        """
        if self._streams:
            return
        streams = await self._found()
        if streams:
            await self._mend(streams)
        elif create:
            streams = await self._connection.ask(self._create)
        else:
            raise NotFound(
                f"acemq: there is no event log {self.name!r}: push to it, or create it", code=404
            )
        if self._asked not in (None, len(streams)):
            raise ConfigurationError(
                f"acemq: event log {self.name!r} has {len(streams)} streams, and {self._asked} "
                "were asked for: their number is fixed when it is made; leave it out to take the "
                "log as it is"
            )
        self._streams = streams
        self._deleted = False

    async def delete(self) -> None:
        """Deletes the log with all its messages. Not an error where it is not there.

        :raises ConfigurationError: its name is that of a queue that is no stream
        """
        if await self._found():
            await self._connection.ask(
                lambda link, limit: Founder(self._clock, link, self.name, limit).delete()
            )
        self._streams = ()
        self._deleted = True

    async def _found(self) -> tuple[str, ...]:
        streams = await self._connection.ask(lambda link, limit: found(link, self.name, limit))
        if streams:
            await self._refuse_other_kinds(streams[0])
        return streams

    async def _mend(self, streams: tuple[str, ...]) -> None:
        """Sees that each stream has a message: whoever made them may have died over it."""
        for stream in streams:
            # The count lags behind, and a stream of one message counts none.
            if await self._connection.message_count(stream):
                continue
            await self._refuse_other_kinds(stream)
            if (await self._connection.ends(stream)).tail < 0:
                await self._genesis(stream)

    async def _create(self, link: Link, limit: float) -> tuple[str, ...]:
        founder = Founder(self._clock, link, self.name, limit)
        return await founder.create(self._asked or 1, self._retention, self._genesis)

    async def _genesis(self, stream: str) -> None:
        await self._write_mark(stream, "genesis")

    async def _refuse_other_kinds(self, stream: str) -> None:
        try:
            reader = await self._connection.read(stream, Next, prefetch=1)
        except BrokerError as refusal:
            if refusal.code != _NO_STREAM:
                raise
            raise ConfigurationError(
                f"acemq: {stream!r} is a queue and no stream, and cannot be an event log: give "
                "the log another name"
            ) from refusal
        await reader.close()

    # ------------------------------------------------------------ writing

    async def push(
        self,
        payloads: Sequence[Any],
        lane: str = DEFAULT_LANE,
        *,
        headers: Mapping[str, Any] | None = None,
        envelope: Envelope | None = None,
        ids: Sequence[str] | None = None,
    ) -> list[PublishResult]:
        """Appends messages to a lane, in order, and returns once all are confirmed.

        All are checked and encoded before the first one is sent.

        :param headers: the application's headers, of each
        :param envelope: history of each, other than a fresh one's; the first has its id too
        :param ids: the id of each, where it is not to be a fresh one
        :raises ConfigurationError: something in it cannot travel; nothing was sent
        :raises EncodeError: the codec cannot write one of them; nothing was sent
        :raises BatchError: some were not confirmed; ``.outcomes`` has one outcome per payload
        """
        stream = self.stream_of(lane)
        written = {**_without_offset(headers or {}), **lane_headers(lane, self._clock.now())}
        return await self._publisher(stream).send_many(
            payloads, headers=written, envelopes=_envelopes(len(payloads), envelope, ids)
        )

    def _publisher(self, stream: str) -> Publisher:
        publisher = self._publishers.get(stream)
        if publisher is None:
            publisher = self._connection.publisher("", stream, codec=self._codec)
            self._publishers[stream] = publisher
        return publisher

    async def _write_mark(self, stream: str, mark: Mark) -> str:
        publisher = self._connection.publisher("", stream, codec=BytesCodec()).bare()
        headers = mark_headers(mark, self._clock.now())
        return (await publisher.send(b"", headers=headers)).message_id

    # ------------------------------------------------------------ finding places

    async def ends(self, stream: str) -> StreamEnds:
        """The oldest and the newest offset of one of its streams, exact, without writing."""
        return await self._connection.ends(stream)

    async def mark(self, stream: str) -> int:
        """The offset that divides: all confirmed before the call is below it, all pushed after
        its return is not. Writes a mark, just below it.

        :raises BrokerError: it could not be written, or the reading of it ended
        """
        return await self._after_mark(stream, Next)

    async def at(self, stream: str, moment: float, slack: float = 1.0) -> int:
        """The first offset that was pushed at a moment or later, or at a time that is not told.

        Where there is none, the offset that comes next. Writes a mark, to know where to stop.

        :param moment: seconds since the epoch
        :param slack: begins so many seconds earlier, as publish times are by the publishers'
            clocks: none is missed whose clock differs from the broker's by no more
        """
        since = min(max(0.0, moment - slack), _LATEST)
        start = At(datetime.fromtimestamp(since, UTC)) if since >= 1 else First
        return await self._after_mark(stream, start, since)

    async def id_at(self, stream: str, offset: int) -> str:
        """The id of the message at an offset; ``""`` where there is none, or it has none."""
        ends = await self._connection.ends(stream)
        if offset == ends.tail:
            return ends.tail_id
        if not ends.oldest <= offset < ends.tail:
            return ""
        reader = await self._connection.read(stream, Offset(offset), prefetch=1)
        try:
            (arrival,) = await self.taken(reader, 1)
        finally:
            await reader.close()
        return id_of(arrival) if offset_of(arrival) == offset else ""

    async def _after_mark(self, stream: str, start: Start, since: float | None = None) -> int:
        """Reads from a start on to a mark that is written now.

        The reader is attached before, so the mark comes to it whatever else does.

        :param since: stop at the first message of this time or later, if that comes before
        :returns: where it stopped, or the offset after the mark
        """
        reader = await self._connection.read(stream, start, prefetch=_AT_ONCE)
        try:
            mark = await self._write_mark(stream, "mark")
            while True:
                for arrival in await self.taken(reader, _AT_ONCE):
                    record = record_of(stream, arrival)
                    if record.id == mark:
                        return record.offset + 1
                    if since is not None and _pushed_since(record, since):
                        return record.offset
        finally:
            await reader.close()

    async def taken(self, reader: StreamReader, most: int) -> list[Arrival]:
        """What comes next, where something is known to come."""
        taken = await reader.take(most, self._clock.monotonic() + _PATIENCE)
        if not taken:
            raise BrokerTimeout(
                f"acemq: the broker sent nothing of stream {reader.stream!r} in {_PATIENCE:g} s, "
                "which has more; it is overloaded, or a leader is being elected: try again"
            )
        return taken


def _pushed_since(record: LogRecord, since: float) -> bool:
    return not record.mark and (not record.time or record.time >= since)


def _checked_count(streams: int | None) -> int | None:
    if streams is None:
        return None
    return checks.whole(streams, "streams of an event log", most=_MOST_STREAMS)


def _without_offset(headers: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in headers.items() if name != _OFFSET}


def _envelopes(
    count: int, envelope: Envelope | None, ids: Sequence[str] | None
) -> list[Envelope] | None:
    """The envelope of each message; None where all are a new message's."""
    if envelope is None:
        return None if ids is None else [Envelope(id=each) for each in ids]
    if not isinstance(envelope, Envelope):
        raise ConfigurationError(
            f"acemq: envelope= wants an Envelope, got a {type(envelope).__name__}"
        )
    if _OFFSET in envelope.headers:
        envelope = envelope.with_(headers=_without_offset(envelope.headers))
    if ids is None:
        ids = [envelope.id, *(fresh_id() for _ in range(count - 1))][:count]
    return [envelope.with_(id=each) for each in ids]
