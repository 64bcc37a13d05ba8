"""Hints that something was committed, by LISTEN on a connection of its own.

A hint lets a relay look at once; that it looks at all is the business of its polling. So what
matters here is to notice a connection that died and to make another, however long that takes, and
to hint once whenever a connection was made: what was committed in between has told nobody.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable
from typing import Any, Final

from acemq_amqp.errors import ConfigurationError
from acemq_stores.sql.adding import lock_of

log = logging.getLogger("acemq_stores")

#: seconds of silence after which the connection is asked whether it lives
_SILENCE: Final = 15.0
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0
#: a peer that is gone without a word is noticed by the system
_ALIVE: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


def channel_of(table: str) -> str:
    """The name under which commits to an outbox are told."""
    return f"acemq_{lock_of('notify', table) & (1 << 64) - 1:016x}"


def listening_address(notify: bool, connect: Any, listen: str | None) -> str | None:
    """Where to listen; None where nothing is told.

    :raises ConfigurationError: notify=True and no address of PostgreSQL
    """
    if not notify:
        if listen is not None:
            raise ConfigurationError("acemq: listen= of an outbox wants notify=True beside it")
        return None
    address = connect if listen is None and isinstance(connect, str) else listen
    if isinstance(address, str) and address.startswith(("postgresql:", "postgres:")):
        return address
    raise ConfigurationError(
        "acemq: notify=True wants PostgreSQL, and an address of its own to listen at: pass "
        "listen='postgresql://...', past any pooler, which would lose what it listens to"
    )


class Listener:
    """A thread that listens until it is stopped.

    :param address: of PostgreSQL itself, not of a pooler
    :param hint: called after each commit that tells of itself, in the listener's thread
    """

    def __init__(self, address: str, channel: str, hint: Callable[[], None]) -> None:
        self._address = address
        self._channel = channel
        self._hint = hint
        self._stopping = threading.Event()
        self._heard, self._told = os.pipe()
        self._trouble = False
        self._pause = _FIRST_PAUSE
        threading.Thread(target=self._run, name="acemq-outbox-listener", daemon=True).start()

    def stop(self) -> None:
        """Ends it, without waiting for that."""
        if not self._stopping.is_set():
            self._stopping.set()
            os.write(self._told, b"x")

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._connected()
            except Exception as failure:
                self._tell(failure)
                self._stopping.wait(self._pause)
                self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        os.close(self._heard)
        os.close(self._told)

    def _connected(self) -> None:
        import psycopg

        # mypy takes each of _ALIVE for every keyword of connect()
        with psycopg.connect(self._address, autocommit=True, **_ALIVE) as connection:  # type: ignore[arg-type]
            connection.execute(f'LISTEN "{self._channel}"'.encode())
            self._tell(None)
            self._hint()
            while self._listened(connection):
                self._hint()

    def _listened(self, connection: Any) -> bool:
        """Waits for a commit, or for silence that was long enough; False where it is to stop."""
        ready, _, _ = select.select([connection, self._heard], [], [], _SILENCE)
        if self._heard in ready:
            return False
        if ready:
            for _ in connection.notifies(timeout=0):
                pass
        else:
            connection.execute("SELECT 1")
        return True

    def _tell(self, failure: Exception | None) -> None:
        """Logs that the connection is gone, and that there is one again."""
        if failure is None and self._trouble:
            log.warning("acemq: the outbox's listener has a connection again")
        if failure is not None and not self._trouble:
            log.warning(
                "acemq: the outbox's listener has no connection; records are found by polling "
                "until it has one: %s",
                " ".join(str(failure).split()),
            )
        self._trouble = failure is not None
        if failure is None:
            self._pause = _FIRST_PAUSE
