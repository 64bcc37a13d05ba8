"""What was published on a channel in confirm mode, and what became of it.

An entry is queued, then written, then settled, and is told its outcome once. Confirms carry
tags; returns carry none, so a return is paired with the one message in flight that has its
exchange, key and id: of equal ones only one is in flight at a time. What was written and given
up on keeps its tag, so that a late confirm meets nobody and the pairing stays right.

The channel can close under its messages. The broker's words then tell whose fault it was; for
the others in flight nobody can know, and they are told so. What was queued waits for the next
channel.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from enum import Enum
from typing import Any, TypeAlias

from acemq_amqp.core.ports import Confirmed, Outcome, Outgoing, Refused, Unknown, Unsent
from acemq_amqp.transports.wire.blame import to_blame
from acemq_amqp.transports.wire.frames import header_fits, publish_method, publish_pieces

OnOutcome: TypeAlias = Callable[[Outcome], None]

_log = logging.getLogger("acemq")
#: a publishing channel that nacks is left for a fresh one at most so often, in seconds
RENEWAL = 1.0
#: what a frame set takes besides properties and body, about
_OVERHEAD = 64


class State(Enum):
    """How far a message has come."""

    QUEUED = "queued"
    WRITTEN = "written"
    SETTLED = "settled"


_QUEUED, _WRITTEN, _SETTLED = State.QUEUED, State.WRITTEN, State.SETTLED


class Entry:
    """One message in a ledger. Its outcome is told once."""

    __slots__ = ("method", "on_outcome", "outgoing", "returned", "state", "twin")

    def __init__(self, outgoing: Outgoing, on_outcome: OnOutcome, method: bytes) -> None:
        self.outgoing = outgoing
        self.on_outcome = on_outcome
        self.method = method
        self.state = _QUEUED
        #: two messages with an equal one are told apart by nothing that a return carries
        self.twin = (outgoing.exchange, outgoing.routing_key, outgoing.message_id)
        #: why the broker returned it, or empty
        self.returned = ""

    def settle(self, outcome: Outcome) -> None:
        """Tells the outcome. A failing callback is logged: it must not cost others theirs."""
        try:
            self.on_outcome(outcome)
        except Exception:
            _log.exception("acemq: a publish callback failed; it may only enqueue")


_Told: TypeAlias = list[tuple[Entry, Outcome]]


class PublishLedger:
    """The messages of one publishing channel, and of its successors on the same connection.

    :meth:`submit` and :meth:`withdraw` may be called from any thread when ``lock`` is a thread
    lock; all else is the I/O side's. Callbacks run outside the lock.

    :param frame_max: the negotiated size of a whole frame in bytes; 0 is no limit
    :param lock: guards the ledger; held for moments
    """

    def __init__(self, channel: int, frame_max: int, lock: AbstractContextManager[Any]) -> None:
        self.channel = channel
        self.frame_max = frame_max
        self._lock = lock
        self._open = True
        self._paused: str | None = None
        self._lost: str | None = None
        self._unsettled = 0
        self._queued: OrderedDict[Entry, None] = OrderedDict()
        # By tag. Entries that were given up on stay, until their confirm or the channel's end.
        self._flying: dict[int, Entry] = {}
        self._twins: dict[tuple[str, str, str], Entry] = {}
        # Queued behind a twin that was given up on: set aside, so as not to hold the others.
        self._aside: list[Entry] = []
        self._last_tag = 0
        self._lowest_tag = 1

    @property
    def unsettled(self) -> int:
        """How many messages have no outcome yet."""
        return self._unsettled

    @property
    def wanting(self) -> bool:
        """True where :meth:`collect` has something to write."""
        with self._lock:
            return self._next() is not None

    # ------------------------------------------------------------ any thread

    def submit(self, outgoing: Outgoing, on_outcome: OnOutcome) -> Entry:
        """Queues a message. Its outcome is told to ``on_outcome``, once, from whichever side.

        :raises ConfigurationError: an exchange or routing key that cannot be written
        """
        method = publish_method(outgoing.exchange, outgoing.routing_key)
        entry = Entry(outgoing, on_outcome, method)
        refusal = None if header_fits(outgoing, self.frame_max) else self._too_large(outgoing)
        with self._lock:
            if refusal is None and self._lost is None:
                self._unsettled += 1
                self._queued[entry] = None
                return entry
            entry.state = _SETTLED
        entry.settle(refusal or Unsent(self._lost or ""))
        return entry

    def _too_large(self, outgoing: Outgoing) -> Refused:
        return Refused(
            f"the properties and headers take {len(outgoing.properties)} bytes and one frame "
            f"of this connection holds {self.frame_max}; move them into the body",
            code=_CONTENT_TOO_LARGE,
        )

    def withdraw(self, entry: Entry, reason: str) -> None:
        """Gives up on a message: for good where it is queued, as unknown where it was written.

        While the broker has paused publishing, the reason told is the broker's.
        """
        with self._lock:
            told = self._withdrawn(entry, reason)
        _tell(told)

    def _withdrawn(self, entry: Entry, reason: str) -> _Told:
        if entry.state is _QUEUED:
            if self._queued.pop(entry, entry) is entry:
                self._aside.remove(entry)
            paused = self._paused is not None
            return self._settled(entry, Unsent(self._paused if self._paused else reason, paused))
        return self._settled(entry, Unknown(reason))

    # ------------------------------------------------------------ writing

    def collect(self, limit_bytes: int) -> bytes:
        """The frames of what is next in the queue, which counts as handed to the socket now.

        :param limit_bytes: stop when about so many are together; one larger message goes alone
        """
        taken: list[Entry] = []
        with self._lock:
            while limit_bytes > 0 and (entry := self._next()) is not None:
                outgoing = entry.outgoing
                limit_bytes -= len(outgoing.body) + len(outgoing.properties) + _OVERHEAD
                self._fly(entry)
                taken.append(entry)
            channel, frame_max = self.channel, self.frame_max
        pieces: list[bytes] = []
        for entry in taken:
            pieces += publish_pieces(channel, entry.method, entry.outgoing, frame_max)
        return b"".join(pieces)

    def _next(self) -> Entry | None:
        """The entry to write next; None while there is none, or it may not be written yet."""
        if self._paused is not None or not self._open:
            return None
        queued = self._queued
        while queued:
            entry = next(iter(queued))
            twin = self._twins.get(entry.twin)
            if twin is None:
                return entry
            if twin.state is not _SETTLED:
                return None
            del queued[entry]
            self._aside.append(entry)
        return None

    def _fly(self, entry: Entry) -> None:
        del self._queued[entry]
        self._last_tag += 1
        entry.state = _WRITTEN
        self._flying[self._last_tag] = entry
        self._twins[entry.twin] = entry

    # ------------------------------------------------------------ what the broker says

    def acked(self, tag: int, multiple: bool) -> None:
        """The broker took responsibility for a message, or for all up to it. Tag 0 is all."""
        self._confirmed(tag, multiple, _acked)

    def nacked(self, tag: int, multiple: bool) -> None:
        """At least one queue refused a message, or each up to it; others may have it."""
        self._confirmed(tag, multiple, _nacked)

    def _confirmed(self, tag: int, multiple: bool, outcome: Callable[[Entry], Outcome]) -> None:
        told: _Told = []
        with self._lock:
            for entry in self._landed(tag, multiple):
                told += self._settled(entry, outcome(entry))
        _tell(told)

    def _landed(self, tag: int, multiple: bool) -> list[Entry]:
        """Takes the entries of these tags out of flight."""
        last = self._last_tag
        tags = range(self._lowest_tag, min(tag or last, last) + 1) if multiple else (tag,)
        landed = [entry for t in tags if (entry := self._flying.pop(t, None)) is not None]
        if multiple:
            self._lowest_tag = max(self._lowest_tag, tags[-1] + 1 if tags else 0)
        for entry in landed:
            del self._twins[entry.twin]
            if entry.state is _SETTLED:
                self._step_back()
        return landed

    def _step_back(self) -> None:
        """Puts what was set aside back in front of the queue, in order."""
        for entry in reversed(self._aside):
            self._queued[entry] = None
            self._queued.move_to_end(entry, last=False)
        self._aside.clear()

    def returned(self, exchange: str, key: str, message_id: str, code: int, text: str) -> None:
        """No queue wanted a message. Its confirm follows and tells the outcome."""
        with self._lock:
            entry = self._twins.get((exchange, key, message_id))
            if entry is not None:
                entry.returned = f"{code} {text}"

    def pause(self, reason: str) -> None:
        """The broker is blocked: nothing is written until :meth:`resume`."""
        self._paused = reason

    def resume(self) -> None:
        """The broker is no longer blocked."""
        self._paused = None

    # ------------------------------------------------------------ ends

    def channel_closed(self, code: int, text: str) -> None:
        """The broker closed the channel. What is queued waits for :meth:`reopened`.

        The messages whose fault it was are refused, with ``stored="perhaps"`` where an earlier
        one of the same kind may have gone through; the others in flight are unknown.
        """
        with self._lock:
            flying = list(self._flying.values())
            refused = to_blame(code, text, [entry.outgoing for entry in flying])
            unknown = Unknown(f"the channel was closed before the confirm came: {code} {text}")
            told = self._ground(refused.get(index, unknown) for index in range(len(flying)))
            self._open = False
        _tell(told)

    def reopened(self, channel: int) -> None:
        """A new channel in confirm mode stands in for the closed one."""
        with self._lock:
            self.channel = channel
            self._last_tag, self._lowest_tag = 0, 1
            self._open = True

    def rest(self) -> None:
        """Nothing more is written on this channel, which is to be left once it is ``at_rest``."""
        self._open = False

    @property
    def at_rest(self) -> bool:
        """Whether every message that was written has its outcome."""
        with self._lock:
            return self._unsettled == len(self._queued) + len(self._aside)

    def left(self) -> None:
        """The channel was left for another one: late confirms on it meet nobody."""
        with self._lock:
            told = self._ground(Unknown("its channel was left") for _ in self._flying)
            self._open = False
        _tell(told)

    def lost(self, reason: str) -> None:
        """The connection is gone: what was written is unknown, the rest was never sent.

        So is everything submitted from now on.
        """
        with self._lock:
            self._lost, self._open = reason, False
            unknown = Unknown(reason)
            told = self._ground(unknown for _ in self._flying)
            for entry in self._queued:
                told += self._settled(entry, Unsent(reason))
            self._queued.clear()
        _tell(told)

    def _ground(self, outcomes: Iterable[Outcome]) -> _Told:
        """Ends everything in flight."""
        told: _Told = []
        for entry, outcome in zip(self._flying.values(), outcomes, strict=True):
            told += self._settled(entry, outcome)
        self._flying.clear()
        self._twins.clear()
        self._step_back()
        return told

    def _settled(self, entry: Entry, outcome: Outcome) -> _Told:
        """Settles under the lock; what it gives is to be told outside."""
        if entry.state is _SETTLED:
            return []
        entry.state = _SETTLED
        self._unsettled -= 1
        return [(entry, outcome)]


def _acked(entry: Entry) -> Outcome:
    return Confirmed(routed=False, reason=entry.returned) if entry.returned else _CONFIRMED


def _nacked(entry: Entry) -> Outcome:
    return _UNROUTED_NACK if entry.returned else _NACKED


_CONFIRMED = Confirmed()
_CONTENT_TOO_LARGE, _NO_ROUTE = 311, 312
_NACKED = Refused("the broker nacked it: at least one queue refused it", stored="perhaps")
_UNROUTED_NACK = Refused("the broker returned it and nacked it", code=_NO_ROUTE)


def _tell(told: _Told) -> None:
    for entry, outcome in told:
        entry.settle(outcome)
