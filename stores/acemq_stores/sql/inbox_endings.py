"""How it is told that a handler ended the transaction which its message is claimed in."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from acemq_amqp.patterns.claim import TransactionEnded
from acemq_stores.sql.failures import state_of
from acemq_stores.sql.kept_open import kept_open

log = logging.getLogger("acemq_stores")

#: What drivers say of a connection that was closed in this process, or of a mark that is gone.
_TOLD: Final = (
    "no such savepoint",
    "closed database",
    "connection is closed",
    "connection already closed",
    "no active connection",
)
#: A statement had failed in it: the commit would undo everything, and say nothing.
_FAILED: Final = "25P02"
#: psycopg and psycopg2 count alike
_IDLE: Final = 0


@contextmanager
def guarded(key: str, connection: Any) -> Iterator[None]:
    """Around the handler: keeps the transaction open where the driver lets it, or tells.

    :raises TransactionEnded: sqlite3 was asked to end it, and did not
    """
    with kept_open(connection) as refused:
        try:
            yield
        except Exception as failure:
            if refused:
                raise ended(key, refused[0]) from failure
            if not _open(connection):  # the handler's own failure is what has to be seen
                log.warning("%s", ended(key))
            raise
        if refused:
            raise ended(key, refused[0])


@contextmanager
def marking(key: str) -> Iterator[None]:
    """Around the steps that mark a message as handled.

    :raises TransactionEnded: there is nothing any more to mark it in
    """
    try:
        yield
    except Exception as failure:
        told = str(failure).lower()
        if state_of(failure) == _FAILED or any(words in told for words in _TOLD):
            raise ended(key) from failure
        raise


def checked_mark(key: str, marked: bool) -> None:
    """Lets pass what was marked in the transaction that it was claimed in.

    :raises TransactionEnded: it was not
    """
    if not marked:
        raise ended(key)


def ended(key: str, how: str = "") -> TransactionEnded:
    """What the handler's author is told."""
    done = f"called for {how} on" if how else "committed, rolled back, closed or broke"
    return TransactionEnded(
        f"acemq: the transactional handler of message {key!r} {done} the transaction that it was "
        "given, which is not its own: let it write only, answer accept to commit, and raise to "
        "undo; 'with tx:' commits, too. The message does not count as handled"
    )


def _open(connection: Any) -> bool:
    """Whether it is in a transaction, as far as its driver tells."""
    with suppress(AttributeError):
        return bool(connection.info.transaction_status != _IDLE)
    try:
        told = getattr(connection, "in_transaction", True)
    except Exception:  # closed
        return False
    return callable(told) or bool(told)
