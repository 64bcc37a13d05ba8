"""One commit of a holder, or of a reader of lanes: everything it writes, in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from acemq_amqp.errors import ConfigurationError
from acemq_amqp.eventlog.store import Fence, Step
from acemq_amqp.patterns.outbox import OutboxRecord
from acemq_stores.sql import log_places, log_windows
from acemq_stores.sql import log_statements as sql
from acemq_stores.sql.failures import asks_for_repeat, is_database_error, lost_connection
from acemq_stores.sql.kept_open import kept_open
from acemq_stores.sql.log_places import Place
from acemq_stores.sql.log_rows import texts
from acemq_stores.sql.outbox import SqlOutboxStore
from acemq_stores.sql.session import Session


class WorkFailed(Exception):
    """The user's own function raised ``failure``: it is not the store's, nor the database's."""

    def __init__(self, failure: Exception) -> None:
        super().__init__(str(failure))
        self.failure = failure


class Committing:
    """What a commit needs beside its values.

    :param lease: seconds of a hold
    """

    def __init__(self, outbox: SqlOutboxStore, lease: float) -> None:
        self._outbox = outbox
        self._lease = lease

    def step(self, session: Session, fence: Fence, holder: str, step: Step, stamp: str) -> bool:
        """Writes a holder's step.

        :param stamp: this call's own: where the connection was lost in the commit, and it is done
            again, the step is not written twice
        """
        place = log_places.fenced(session, fence)
        if place is None or place.holder != holder:
            return False
        if place.stamp == stamp:
            return True
        number = log_windows.shared(session, step.query) if step.query else None
        if step.query and number is None:
            return False
        if step.work is not None:
            carry_out(step.work, session.connection)
        self._move(session, place, step, stamp)
        if number is not None:
            log_windows.write(session, number, fence.stream, step)
        self._put_out(session, fence, step.records, step.seen)
        return True

    def lanes(
        self,
        session: Session,
        fence: Fence,
        token: str,
        moved: Mapping[str, int],
        freed: Sequence[str],
        records: Sequence[OutboxRecord],
        seen: Sequence[str],
    ) -> set[str]:
        """Settles lanes."""
        mine = log_places.settle_lanes(session, fence, token, moved, freed)
        if mine and mine == {*moved, *freed}:
            self._put_out(session, fence, records, seen)
        return mine

    def _move(self, session: Session, place: Place, step: Step, stamp: str) -> None:
        next_, anchor = place.anchored(step.upto, step.anchor)
        session.change(
            sql.COMMIT_PLACE,
            number=place.number,
            next=next_,
            anchor=anchor,
            begun=step.begun,
            attempts=step.attempts,
            lease=self._lease,
            stamp=stamp,
        )
        if place.lanes:
            reached = step.upto >= place.next
            statement = sql.DROP_LANES if reached else sql.BRING_LANES
            session.change(statement, place=place.number, upto=step.upto)

    def _put_out(
        self,
        session: Session,
        fence: Fence,
        records: Sequence[OutboxRecord],
        seen: Sequence[str],
    ) -> None:
        if records:
            self._outbox.add_many(records, connection=session.connection)
        if seen:
            session.change(sql.NOTE_SEEN, group=fence.group, stream=fence.stream, given=texts(seen))


def carry_out(work: Callable[[Any], None], connection: Any) -> None:
    """Lets the user write in the transaction, but not end it.

    :raises WorkFailed: around what the function raised
    """
    try:
        with _kept_open(connection):
            work(connection)
    except Exception as failure:
        if is_database_error(failure) and (asks_for_repeat(failure) or lost_connection(failure)):
            raise
        raise WorkFailed(failure) from failure


@contextmanager
def _kept_open(connection: Any) -> Iterator[None]:
    """Refuses the end of the transaction inside; psycopg does so by itself in a pool's."""
    with kept_open(connection) as refused:
        try:
            yield
        except sqlite3.DatabaseError as failure:
            if refused:
                raise _ended(refused[0]) from failure
            raise


def _ended(how: str) -> ConfigurationError:
    return ConfigurationError(
        f"acemq: the function that writes beside the position called for {how} on its connection, "
        "and the transaction is not its own: let it write only; 'with connection:' commits, too"
    )
