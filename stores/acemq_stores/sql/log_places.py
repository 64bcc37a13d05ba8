"""Where groups stand, who holds a stream, whose lanes are leased: work on a session.

Whoever changes something of a group in a stream has that place to itself until the transaction
ends, or shares it with others who change their own lanes alone. What is to happen is decided on
the place as it was found then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from acemq_amqp.eventlog.store import Fence, LaneLease, Position
from acemq_stores.sql import log_statements as sql
from acemq_stores.sql.log_rows import (
    as_json,
    kept,
    lane_offsets,
    lease_of,
    positions_of,
    texts,
    told,
)
from acemq_stores.sql.rendering import Statement
from acemq_stores.sql.session import Session


class Place(NamedTuple):
    """A group's place in a stream, as it was found under its lock.

    :ivar live: whether the holder's lease lasts
    :ivar stamp: which commit was the last
    :ivar lanes: whether any lane has a row
    """

    number: int
    epoch: int
    next: int
    anchor: str
    holder: str
    live: bool
    stamp: str
    lanes: bool

    @property
    def held(self) -> bool:
        """Whether somebody holds the stream whole."""
        return self.live and self.holder != ""

    def anchored(self, upto: int, anchor: str) -> tuple[int, str]:
        """The watermark once all is done below an offset, and the id of the message before it."""
        if upto > self.next or (upto == self.next and anchor):
            return upto, kept(anchor)
        return self.next, self.anchor


def place_of(
    session: Session, group: str, stream: str, statement: Statement = sql.LOCK_PLACE
) -> Place | None:
    """A place, locked; None where the group is not there."""
    row = session.row(statement, group=group, stream=stream)
    if row is None:
        return None
    number, epoch, next_, anchor, holder, live, stamp, lanes = row
    return Place(
        int(number), int(epoch), int(next_), anchor, holder, bool(live), stamp, bool(lanes)
    )


def fenced(session: Session, fence: Fence, statement: Statement = sql.LOCK_PLACE) -> Place | None:
    """The place of a fence, locked; None where the fence was passed."""
    place = place_of(session, fence.group, fence.stream, statement)
    return place if place is not None and place.epoch == fence.epoch else None


# ------------------------------------------------------------ positions


def position(session: Session, group: str, stream: str) -> Position | None:
    """Where a group stands."""
    found = positions_of(session.rows(sql.POSITION, group=group, stream=stream))
    return found[0] if found else None


def create(session: Session, group: str, stream: str, next: int, anchor: str) -> Position | None:
    """Puts a group there, unless it stands somewhere."""
    values = {"group": group, "stream": stream, "next": next, "anchor": kept(anchor)}
    made = session.row(sql.CREATE_PLACE, **values)
    if made is not None:
        session.change(sql.FIRST_EPOCH, number=made[0])
    return position(session, group, stream)


def hold(session: Session, group: str, stream: str, holder: str, lease: float) -> Position | None:
    """Takes a stream whole."""
    place = place_of(session, group, stream)
    if place is None or (place.held and place.holder != holder):
        return None
    if not session.change(sql.HOLD, number=place.number, holder=holder, lease=lease):
        return None
    return position(session, group, stream)


def renewed(session: Session, fences: Sequence[Fence], holder: str, lease: float) -> set[Fence]:
    """Begins holds anew."""
    rows = as_json(
        {"of_group": each.group, "of_stream": each.stream, "of_epoch": each.epoch}
        for each in dict.fromkeys(fences)
    )
    found = session.rows(sql.RENEW_HOLDS, rows=rows, holder=holder, lease=lease)
    return {Fence(group, stream, int(epoch)) for group, stream, epoch in found}


def advance(session: Session, fence: Fence, next: int, anchor: str) -> bool:
    """Moves the watermark."""
    place = fenced(session, fence)
    if place is None or place.held:
        return False
    if place.holder:
        session.change(sql.END_HOLD, number=place.number)
    if next < place.next:
        return True
    if next > place.next:
        session.change(sql.ADVANCE_PLACE, number=place.number, next=next, anchor=kept(anchor))
    if place.lanes:
        passed = {"place": place.number, "upto": next, "before": place.next}
        session.change(sql.CARRY_LANES, **passed)
        session.change(sql.PASS_LANES, **passed)
    return True


def seek(
    session: Session, group: str, stream: str, next: int, anchor: str, lane: str | None
) -> Position | None:
    """Moves a group, or a lane of it."""
    place = place_of(session, group, stream)
    if place is None:
        return None
    whole = (next, kept(anchor)) if lane is None else (place.next, place.anchor)
    session.change(sql.SEEK_PLACE, number=place.number, next=whole[0], anchor=whole[1])
    if lane is None:
        session.change(sql.DELETE_LANES, given=as_json([place.number]))
    else:
        session.change(sql.END_LEASES, place=place.number)
        session.change(sql.PUT_LANE, place=place.number, lane=kept(lane), next=next)
    session.change(sql.FORGET_SEEN, group=group, given=texts([stream]))
    return position(session, group, stream)


def delete_group(session: Session, group: str, streams: Sequence[str]) -> int:
    """Forgets a group in these streams."""
    given = texts(streams)
    found = session.rows(sql.LOCK_GROUP, group=group, given=given)
    session.change(sql.FORGET_SEEN, group=group, given=given)
    return _delete(session, [int(number) for (number,) in found])


def delete_streams(session: Session, streams: Sequence[str]) -> None:
    """Forgets every group in these streams."""
    given = texts(streams)
    found = session.rows(sql.LOCK_STREAMS, given=given)
    session.change(sql.FORGET_SEEN_IN_STREAMS, given=given)
    _delete(session, [int(number) for (number,) in found])


def _delete(session: Session, numbers: list[int]) -> int:
    if numbers:
        session.change(sql.DELETE_LANES, given=as_json(numbers))
        session.change(sql.DELETE_PLACES, given=as_json(numbers))
    return len(numbers)


# ------------------------------------------------------------ lanes


def lease_lanes(
    session: Session, fence: Fence, wanted: Mapping[str, int], token: str, lease: float, again: bool
) -> list[LaneLease]:
    """Leases lanes.

    :param again: this call was tried before, and may have been done
    """
    place = fenced(session, fence)
    if place is None or place.held:
        return []
    if place.holder:  # a hold that lapsed ends where somebody else begins
        session.change(sql.END_HOLD, number=place.number)
    found = session.rows(
        sql.LEASE_LANES,
        place=place.number,
        token=token,
        lease=lease,
        watermark=place.next,
        again=int(again),
        rows=lane_offsets(wanted, "lane", "next"),
    )
    leased = {lane.lane: lane for lane in map(lease_of, found)}
    return [leased[lane] for lane in wanted if lane in leased]


def renew_lanes(
    session: Session, fence: Fence, lanes: Sequence[str], token: str, lease: float
) -> set[str]:
    """Begins leases anew."""
    place = fenced(session, fence, sql.SHARE_PLACE)
    if place is None:
        return set()
    found = session.rows(
        sql.RENEW_LANES, place=place.number, given=texts(lanes), token=token, lease=lease
    )
    return {told(lane) for (lane,) in found}


def settle_lanes(
    session: Session, fence: Fence, token: str, moved: Mapping[str, int], freed: Sequence[str]
) -> set[str]:
    """Moves and frees lanes, all of those named or none; gives those that were still leased."""
    place = fenced(session, fence, sql.SHARE_PLACE)
    if place is None:
        return set()
    named = {*moved, *freed}
    found = session.rows(sql.LOCK_LANES, place=place.number, token=token, given=texts(named))
    mine = {told(lane) for (lane,) in found}
    if mine == named:
        if moved:
            rows = as_json(
                {"of_lane": kept(lane), "onto": onto, "attempts": int(lane not in freed)}
                for lane, onto in moved.items()
            )
            session.change(sql.MOVE_LANES, place=place.number, rows=rows)
        if freed:
            session.change(sql.FREE_LANES, place=place.number, given=texts(freed))
    return mine
