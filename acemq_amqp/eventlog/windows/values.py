"""What goes into windows, and what comes out of them: values, with nothing that acts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from acemq_amqp.errors import ConfigurationError, MessageError
from acemq_amqp.eventlog.store import Query, WindowKey, WindowRow
from acemq_amqp.eventlog.windows.operations import Aggregating
from acemq_amqp.eventlog.windows.progress import Progress
from acemq_amqp.eventlog.windows.timing import Timing


class Kind(Protocol):
    """How time is cut into windows. Bounds are whole milliseconds, the end is outside."""

    @property
    def merges(self) -> bool:
        """Whether windows of one key that overlap are one window: sessions."""

    def assign(self, time: float) -> Sequence[tuple[float, float]]:
        """The windows (start, end) that hold a moment, in seconds since the epoch."""

    def shape(self) -> dict[str, Any]:
        """The kind and its numbers, as JSON has them."""


class Tick:
    """The payload of a message that adds nothing, and yet tells how late it is."""


TICK: Final = Tick()


class Event(NamedTuple):
    """What one message, or a piece of it, adds to the windows of a key.

    Pieces of one message stand next to each other under its offset: they count all, or none.

    :ivar time: seconds since the epoch: when it was published, or its event time
    :ivar payload: what is counted; ``TICK`` moves the time on and counts nowhere
    """

    lane: str
    key: str
    time: float
    payload: Any
    offset: int


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """A query's windows: how they are cut, timed and filled. Built once, and checked then.

    :ivar query: whose windows they are; its id and generation are part of every window's id
    :raises ConfigurationError: windows that merge, and a fold that cannot
    """

    query: Query
    kind: Kind
    timing: Timing
    aggregation: Aggregating

    def __post_init__(self) -> None:
        check_fit(self.kind, self.aggregation)


def check_fit(kind: Kind, aggregation: Aggregating) -> None:
    """Whether a window can be filled so.

    :raises ConfigurationError: windows that merge, and a fold that cannot
    """
    if kind.merges and not aggregation.can_merge:
        raise ConfigurationError(
            "acemq: sessions become one when an event comes between them, and a fold() or reduce() "
            "does not say how: give it merge=function"
        )


@dataclass(frozen=True, slots=True)
class WindowResult:
    """What a window came to.

    :ivar id: the same whenever the same result is made again; see :mod:`.ids`
    :ivar start: seconds since the epoch, as ``end``, which is outside
    :ivar revision: 0 for the first result, one more for each that corrects it
    :ivar replaces: ids of results sent before that this one stands for
    """

    id: str
    lane: str
    key: str
    start: float
    end: float
    revision: int
    data: Any
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of events that came late.

    :ivar dropped: their windows were closed, and they count nowhere
    :ivar side: the same, and they are for the side log
    :ivar included: each corrected a window that had closed
    :ivar partly: some of their windows were closed, and they count in the others alone
    :ivar moved: in processing time: counted in the window that was open by then
    """

    dropped: int = 0
    side: int = 0
    included: int = 0
    partly: int = 0
    moved: int = 0


@dataclass(frozen=True, slots=True)
class Folded:
    """What folding some events changed. Nothing of it is true before it is committed.

    :ivar rows: windows to write, by key
    :ivar gone: keys of windows that merged into others
    :ivar results: results that had to be told before a late event corrects them
    :ivar side: late events for the side log
    :ivar failed: for each message that counts nowhere, its first failing piece and why
    :ivar progress: the time that the stream and its lanes have come to
    """

    rows: Mapping[WindowKey, WindowRow]
    gone: frozenset[WindowKey]
    results: Sequence[WindowResult]
    side: Sequence[Event]
    failed: Sequence[tuple[Event, MessageError]]
    counts: Counts
    progress: Progress

    @classmethod
    def nothing(cls, progress: Progress) -> Folded:
        """No events: for a flush of windows that have gone quiet."""
        return cls({}, frozenset(), (), (), (), Counts(), progress)


@dataclass(frozen=True, slots=True)
class Closed:
    """What is to be written: by a commit, all together.

    :ivar results: in an order that is always the same
    :ivar rows: for ``Step.windows``
    :ivar gone: for ``Step.closed``
    """

    results: Sequence[WindowResult] = ()
    rows: Sequence[WindowRow] = ()
    gone: Sequence[WindowKey] = ()
