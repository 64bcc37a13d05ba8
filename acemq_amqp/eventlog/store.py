"""Where positions, windows and output are kept: one database that commits them together.

Each method of a store is one transaction. Whoever reads a stream for a group either **holds** it
whole, or leases some of its **lanes**; never both at a time. What a reader writes is guarded by a
:class:`Fence`: the group's epoch, which every hold and every seek raises. A fence that has been
passed writes nothing, and says so, so a reader that slept past its lease changes nothing.

The position of a group in a stream is ``next``, a low watermark, and a row for each lane that
stands elsewhere: a message is *due* when its offset is not below its lane's row, or ``next`` where
the lane has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from acemq_amqp.patterns.outbox import OutboxRecord, OutboxStore


@dataclass(frozen=True, slots=True)
class Fence:
    """The right to write: the epoch of a group in one stream, as it was when it was read."""

    group: str
    stream: str
    epoch: int


@dataclass(frozen=True, slots=True)
class LaneRow:
    """A lane that does not stand at the watermark, or that is leased.

    :ivar attempts: how often the message at ``next`` was begun, and not settled
    :ivar token: whose lease it is; ``""`` where it is nobody's or has lapsed
    """

    lane: str
    next: int
    attempts: int = 0
    token: str = ""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a group stands in a stream.

    :ivar anchor: id of the message at ``next - 1``; ``""`` where it is not known
    :ivar unfinished: the offset before which a holder had begun, and not committed; 0 if none
    :ivar attempts: how often the message at ``next`` was begun alone, and not settled
    :ivar holder: who holds the stream whole; ``""`` where nobody does or the lease has lapsed
    """

    fence: Fence
    next: int
    anchor: str = ""
    unfinished: int = 0
    attempts: int = 0
    holder: str = ""
    lanes: tuple[LaneRow, ...] = ()


@dataclass(frozen=True, slots=True)
class LaneLease:
    """A lane that was leased: from where, and which attempt this is of the message there."""

    lane: str
    next: int
    attempts: int


@dataclass(frozen=True, slots=True)
class WindowRow:
    """A window's state. Its key is (lane, key, start) within a query's generation and stream.

    :ivar start: seconds since the epoch, as ``end``
    :ivar closes: the moment from which it is ripe, on the query's own time; ``inf`` is never
    :ivar revision: 0 for the first result, one more for each that corrects it
    :ivar state: what its aggregates know, as JSON
    """

    lane: str
    key: str
    start: float
    end: float
    closes: float
    revision: int
    state: str


WindowKey = tuple[str, str, float]


@dataclass(frozen=True, slots=True)
class Query:
    """A window query as the store knows it.

    :ivar generation: raised by each reset; part of every window's id
    :ivar fresh: whether this call made it, or reset it
    """

    id: str
    generation: int
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """What one commit of a holder writes, all of it or nothing.

    :ivar upto: everything due below this offset is done; it may be below the watermark, while
        a lane that was sought back is read again
    :ivar anchor: id of the message at ``upto - 1``
    :ivar begun: offset before which the next batch ends; 0 where none is begun
    :ivar attempts: how often the message at ``upto`` has been begun alone
    :ivar records: output: windows, dead letters
    :ivar seen: ids of windows that were handled, kept for seven days
    :ivar query: whose windows these are; one that was reset since passes the fence
    :ivar windows: rows to write; of several with one key the last
    :ivar closed: keys of rows to remove, before others are written
    :ivar watermarks: event time that lanes have come to; what is lower than before is left out
    :ivar work: the user's own writes, given the transaction's connection (None in memory); called
        before anything else is written, and again where the database undid the transaction for
        another's sake; it must not end the transaction
    """

    upto: int
    anchor: str = ""
    begun: int = 0
    attempts: int = 0
    records: Sequence[OutboxRecord] = ()
    seen: Sequence[str] = ()
    query: Query | None = None
    windows: Sequence[WindowRow] = ()
    closed: Sequence[WindowKey] = ()
    watermarks: Mapping[str, float] = field(default_factory=dict)
    work: Callable[[Any], None] | None = None


@runtime_checkable
class LogStore(Protocol):
    """Keeps what event logs need. Every method is one transaction, and raises StoreError.

    Awaited in the async flavour, driven in the blocking one.
    """

    @property
    def lease(self) -> float:
        """Seconds that a hold, or a lane's lease, lasts without being renewed."""

    def leasing(self, seconds: float) -> LogStore:
        """The same store, whose holds and leases last so long."""

    @property
    def outbox(self) -> OutboxStore:
        """Where ``Step.records`` go: in the same database, for a relay to publish."""

    # ------------------------------------------------------------ positions

    async def position(self, group: str, stream: str) -> Position | None:
        """Where a group stands; None where it has not been there."""

    async def positions(self, streams: Sequence[str]) -> list[Position]:
        """Where all groups stand in these streams, ordered by group and stream."""

    async def create(self, group: str, stream: str, next: int, anchor: str) -> Position:
        """Puts a group at an offset, unless it stands somewhere: then that is given."""

    async def hold(self, group: str, stream: str, holder: str) -> Position | None:
        """Takes a stream whole, for :attr:`lease` seconds, and raises the epoch.

        :returns: the position under its new fence; None where another holds it, lanes of it are
            leased, or the group does not exist
        """

    async def renew(self, fences: Sequence[Fence], holder: str) -> set[Fence]:
        """Begins holds anew, and returns those that are still this holder's under that epoch.

        A hold that lapsed and that nobody took is still its holder's.
        """

    async def release(self, fence: Fence, holder: str) -> None:
        """Gives a hold back, for others to take at once. Not an error where it is gone."""

    async def commit(self, fence: Fence, holder: str, step: Step) -> bool:
        """Writes a step, and begins the hold anew.

        The watermark never goes back. Lanes' rows below ``upto`` are moved to it, and rows that
        the watermark has reached go.

        :returns: False, with nothing written, where the fence, the hold or the query's generation
            has been passed (a hold that lapsed and that nobody took is still its holder's; who
            leases lanes, or advances, takes it)
        """

    # ------------------------------------------------------------ lanes

    async def lease_lanes(
        self, fence: Fence, wanted: Mapping[str, int], token: str
    ) -> list[LaneLease]:
        """Leases lanes that are free and stand where the caller thinks (lane -> its next).

        A lane without a row stands where the caller says, if that is not below the watermark.
        Counts an attempt of each.

        :returns: those that were leased; none where the stream is held or the fence passed
        """

    async def renew_lanes(self, fence: Fence, lanes: Sequence[str], token: str) -> set[str]:
        """Begins leases anew, and returns the lanes that are still leased under that token.

        A lease that lapsed and that nobody took is still its token's.
        """

    async def settle_lanes(
        self,
        fence: Fence,
        token: str,
        moved: Mapping[str, int],
        freed: Sequence[str],
        *,
        records: Sequence[OutboxRecord] = (),
        seen: Sequence[str] = (),
    ) -> set[str]:
        """Moves leased lanes forward, and frees some.

        Of one that moves and stays leased the message that is next was given out as well: that is
        its first attempt; of one that is freed too none is counted. A lane may be freed without
        being moved. All of it is written, ``records`` and ``seen`` too, where every lane named was
        still leased under that token; otherwise nothing is.

        :returns: the lanes that were; fewer than named where the fence or a lease was passed
        """

    async def advance(self, fence: Fence, next: int, anchor: str) -> bool:
        """Moves the watermark forward, never back; free lanes' rows that it reaches go.

        Rows that stood below the watermark before (a lane was sought back) stay. A row with an
        attempt counted moves along: the message begun is still before it.

        :returns: False, with nothing written, where the stream is held or the fence passed
        """

    async def seek(
        self, group: str, stream: str, next: int, anchor: str, lane: str | None = None
    ) -> Position | None:
        """Moves a group, or one lane of it, and raises the epoch; leases and attempts end.

        Without a lane every lane's row goes; with one, ``anchor`` is not used. What the group has
        seen of the stream is forgotten, so that it is given again. None where there is no such
        group.
        """

    async def delete_group(self, group: str, streams: Sequence[str]) -> int:
        """Forgets a group with its lanes; returns in how many streams it stood."""

    async def delete_streams(self, streams: Sequence[str]) -> None:
        """Forgets every group's position in these streams, and windows over them.

        Queries that kept anything of them begin another generation: what they make of streams that
        are called so later has ids of its own.
        """

    # ------------------------------------------------------------ windows

    async def register(self, query: str, shape: str, reset: str | None = None) -> Query:
        """Makes a query known, or finds it.

        :param reset: ``"all"`` or ``"state"``: open windows go, and a new generation begins
        :raises ConfigurationError: it is known with another shape, and no reset was asked for
        """

    # What asks for windows of a generation that was passed finds none.

    async def windows(
        self, query: Query, stream: str, keys: Sequence[tuple[str, str]]
    ) -> list[WindowRow]:
        """The open windows of these (lane, key) pairs."""

    async def ripe(
        self, query: Query, stream: str, upto: float | Mapping[str, float], most: int
    ) -> list[WindowRow]:
        """Windows that close by a moment, earliest first.

        :param upto: for all lanes, or for each of some lanes a moment of its own
        """

    async def watermarks(self, query: Query, stream: str) -> dict[str, float]:
        """Event time that the lanes have come to."""

    async def forget_lanes(self, query: Query, stream: str, before: float) -> int:
        """Drops watermarks below a moment, of lanes that have no open window; returns how many.

        What stands under ``""``, which is no lane's name, stays.
        """

    async def open_windows(self, query: Query) -> int:
        """How many windows are open."""

    # ------------------------------------------------------------ output seen before

    async def unseen(self, group: str, ids: Sequence[str]) -> set[str]:
        """Those of these ids that this group has not handled in the last seven days."""
