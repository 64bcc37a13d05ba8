"""Queries, their open windows and their watermarks: work on a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from acemq_amqp.eventlog.registering import registered
from acemq_amqp.eventlog.store import Query, Step, WindowRow
from acemq_stores.sql import window_statements as sql
from acemq_stores.sql.log_rows import (
    lane_moments,
    pairs,
    texts,
    told,
    window_of,
    windows_removed,
    windows_written,
)
from acemq_stores.sql.session import Session


def register(session: Session, query: str, shape: str, reset: str | None) -> Query:
    """Makes a query known, or finds it, or resets it."""
    if session.row(sql.ADD_QUERY, query=query, shape=shape) is not None:
        return registered(query, shape, None, reset)
    number, generation, known = session.rows(sql.LOCK_QUERY, query=query)[0]
    now = registered(query, shape, (int(generation), known), reset)
    if now.fresh:
        session.change(sql.RESET_QUERY, number=number, generation=now.generation, shape=shape)
        session.change(sql.CLEAR_WINDOWS, number=number)
        session.change(sql.CLEAR_WATERMARKS, number=number)
    return now


def shared(session: Session, query: Query) -> int | None:
    """A query's number, which nobody resets before the transaction ends; None if it was reset."""
    row = session.row(sql.SHARE_QUERY, query=query.id, generation=query.generation)
    return None if row is None else int(row[0])


def write(session: Session, number: int, stream: str, step: Step) -> None:
    """Writes a step's windows: those that are gone first, then the others."""
    of: dict[str, Any] = {"number": number, "stream": stream}
    if step.closed:
        session.change(sql.REMOVE_WINDOWS, rows=windows_removed(step.closed), **of)
    if step.windows:
        session.change(sql.WRITE_WINDOWS, rows=windows_written(step.windows), **of)
    if step.watermarks:
        session.change(sql.NOTE_WATERMARKS, rows=lane_moments(step.watermarks, "moment"), **of)


def find(
    session: Session, query: Query, stream: str, keys: Sequence[tuple[str, str]]
) -> list[WindowRow]:
    """Open windows of these pairs."""
    found = session.rows(sql.FIND_WINDOWS, rows=pairs(keys), **_of(query, stream))
    return [window_of(row) for row in found]


def ripe(
    session: Session, query: Query, stream: str, upto: float | Mapping[str, float], most: int
) -> list[WindowRow]:
    """Windows that close, earliest first."""
    of = _of(query, stream)
    if isinstance(upto, Mapping):
        rows = lane_moments(upto, "upto")
        found = session.rows(sql.RIPE_IN_LANES, rows=rows, most=most, **of)
    else:
        found = session.rows(sql.RIPE, upto=upto, most=most, **of)
    return [window_of(row) for row in found]


def watermarks(session: Session, query: Query, stream: str) -> dict[str, float]:
    """Event time that lanes have come to."""
    found = session.rows(sql.WATERMARKS, **_of(query, stream))
    return {told(lane): float(moment) for lane, moment in found}


def forget_lanes(session: Session, query: Query, stream: str, before: float) -> int:
    """Drops watermarks of lanes without windows."""
    return session.change(sql.FORGET_LANES, before=before, **_of(query, stream))


def count(session: Session, query: Query) -> int:
    """How many windows are open."""
    found = session.rows(sql.OPEN_WINDOWS, query=query.id, generation=query.generation)
    return int(found[0][0])


def delete_streams(session: Session, streams: Sequence[str]) -> None:
    """Forgets windows and watermarks over these streams, whose queries begin a generation."""
    given = texts(streams)
    session.change(sql.RAISE_QUERIES_OF_STREAMS, given=given)
    session.change(sql.DELETE_WINDOWS_OF_STREAMS, given=given)
    session.change(sql.DELETE_WATERMARKS_OF_STREAMS, given=given)


def _of(query: Query, stream: str) -> dict[str, Any]:
    return {"query": query.id, "generation": query.generation, "stream": stream}
