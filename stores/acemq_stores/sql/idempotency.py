"""Claims on messages in a SQL table.

A claim is one step, atomic however many ask at once, and a lease by the database's clock. Claims
that are asked for together are made by one statement, and so are confirmations. A holder that was
overtaken is told so when it confirms or renews. What was confirmed is remembered for the retention,
and purged in small batches by whoever claims.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from acemq_amqp.durations import Duration, seconds
from acemq_amqp.errors import ConfigurationError, StoreError
from acemq_amqp.patterns.claim import Claim
from acemq_stores.sql import statements as sql
from acemq_stores.sql.claiming import Claiming, Confirming, claimed_in, confirmed_in
from acemq_stores.sql.connecting import Connect, Database
from acemq_stores.sql.gathering import Gathering
from acemq_stores.sql.rendering import Statement
from acemq_stores.sql.schema import Schema
from acemq_stores.sql.sources import Access
from acemq_stores.sql.tables import IDEMPOTENCY

log = logging.getLogger("acemq_stores")

_LONGEST_KEY: Final = 200
_PURGE_EVERY: Final = 60.0
_PURGE_BATCH: Final = 1000


def stored_key(key: str) -> str:
    """A key as it is stored: itself, or a hash where a database would refuse it.

    A key comes from a message, so it may be of any length and hold what no text column takes.
    """
    if len(key) <= _LONGEST_KEY and key.isprintable() and not key.startswith("sha256:"):
        return key
    return f"sha256:{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"


class SqlIdempotencyStore:
    """Remembers which messages were handled, in a table that many consumers share.

    Of any number that claim one key at once, one is told CLAIMED. One table is for one kind of
    handler: two that must both see each message need a table, or a ``scope``, each.

    :param connect: ``sqlite:///path``, ``postgresql://...``, or a callable that gives a PEP 249
        connection
    :param claim_timeout: how long a claim holds unless it is renewed
    :param retention: how long a handled message is remembered
    :param table: its name, behind a schema and a dot or not
    :param max_result: bytes of a result that is kept with its message; a larger one is not kept
    :param dialect: for connections of a driver that the stores do not know
    :param create: create and migrate the table at first use
    :raises ConfigurationError: an address or a name that cannot be
    """

    def __init__(
        self,
        connect: Connect,
        *,
        claim_timeout: Duration = 300.0,
        retention: Duration = 86400.0,
        table: str = IDEMPOTENCY.table,
        max_result: int = 65536,
        dialect: str | None = None,
        create: bool = True,
    ) -> None:
        self._lease = seconds(claim_timeout, "claim_timeout")
        self._retention = seconds(retention, "retention")
        if not self._lease or not self._retention:
            raise ConfigurationError(
                "acemq: claim_timeout and retention must be longer than 0: without them a message "
                "would be handled twice at once, or again"
            )
        self._max_result = max_result
        self._database = Database(connect, table, dialect=dialect)
        self._schema = Schema(self._database, IDEMPOTENCY, create=create)
        self._claims = Gathering(self._database.threads, self._claimed, self._given_up)
        self._confirmations = Gathering(self._database.threads, self._confirmed)
        self._purge_at = 0.0
        #: results that were larger than ``max_result``
        self.results_not_kept = 0

    def __repr__(self) -> str:
        return f"SqlIdempotencyStore(table={self._database.table!r})"

    @property
    def claim_timeout(self) -> float:
        """Seconds that a claim holds unless it is renewed."""
        return self._lease

    # ------------------------------------------------------------ claims

    async def claim(self, key: str, holder: str = "") -> Claim:
        """Claims a message, in one atomic step.

        :param holder: who claims; each delivery is another one. The same holder may ask again
        :raises StoreError: the database failed, or is not there
        """
        return await self._claims.ask(Claiming(stored_key(key), holder))

    async def confirm(self, key: str, holder: str = "", result: bytes | None = None) -> bool:
        """Remembers a message as handled.

        :param result: what it came to, for whoever sees the message again
        :returns: False where the claim is another's by now: nothing was changed
        """
        if result is not None and len(result) > self._max_result:
            self.results_not_kept += 1
            result = None
        return await self._confirmations.ask(Confirming(stored_key(key), holder, result))

    async def renew(self, key: str, holder: str = "") -> bool:
        """Begins the lease of a claim anew; False where it is another's by now."""
        values = {"key": stored_key(key), "holder": holder}
        return bool(await self._change(sql.RENEW, **values, lease=self._lease))

    async def forget(self, key: str, holder: str = "") -> None:
        """Gives a claim up, so that the message can be handled at once by another.

        :param holder: whose claim, and only while it is not confirmed; ``""`` removes the key,
            whatever became of it
        """
        if holder:
            await self._change(sql.GIVE_UP, key=stored_key(key), holder=holder)
        else:
            await self._change(sql.FORGET, key=stored_key(key))

    async def result(self, key: str) -> bytes | None:
        """What was kept with a handled message."""
        return await self._database.call(self._result, stored_key(key))

    async def first_time(self, key: str) -> bool:
        """Records a key as handled, and says whether it had not been before. No claim, no lease."""
        return await self._database.call(self._first_time, stored_key(key))

    # ------------------------------------------------------------ looking after

    async def purge(self, most: int = _PURGE_BATCH) -> int:
        """Removes keys that need not be remembered any more; returns how many.

        Claims do it too, about once a minute, and each of them while there is much to remove.

        :param most: keys to remove at most
        """
        return await self._database.call(self._purged, most)

    def close(self) -> None:
        """Lets go of connections and threads. What is asked of it later is refused."""
        self._database.close()

    # ------------------------------------------------------------ inside

    async def _change(self, statement: Statement, **values: Any) -> int:
        return await self._database.call(self._changed, statement, values)

    def _changed(self, statement: Statement, values: Mapping[str, Any]) -> int:
        self._schema.ensure()
        return self._database.run(lambda session: session.change(statement, **values), Access.ONE)

    def _claimed(self, asked: Sequence[Claiming]) -> list[Claim]:
        self._schema.ensure()
        claims = self._database.run(partial(claimed_in, asked, self._lease), Access.ONE)
        if time.monotonic() >= self._purge_at:
            self._purge_now_and_then()
        return claims

    def _given_up(self, left: Sequence[tuple[Claiming, Claim]]) -> None:
        """Claims that were made for deliveries whose handling was cancelled meanwhile."""
        for asked, claim in left:
            if claim is Claim.CLAIMED and asked.holder:
                self._changed(sql.GIVE_UP, {"key": asked.key, "holder": asked.holder})

    def _confirmed(self, asked: Sequence[Confirming]) -> list[bool]:
        self._schema.ensure()
        single = all(each.result is None for each in asked)
        access = Access.ONE if single else Access.SEVERAL
        return self._database.run(partial(confirmed_in, asked, self._retention), access)

    def _purge_now_and_then(self) -> None:
        self._purge_at = time.monotonic() + _PURGE_EVERY
        try:
            if self._purged(_PURGE_BATCH) == _PURGE_BATCH:  # the next claim goes on with it
                self._purge_at = 0.0
        except StoreError as failure:  # the claim is made, and stands
            log.warning("acemq: purging handled keys failed: %s", failure)

    def _first_time(self, key: str) -> bool:
        self._schema.ensure()
        values = {"key": key, "retention": self._retention}
        row = self._database.run(lambda session: session.row(sql.FIRST_TIME, **values), Access.ONE)
        return row is not None

    def _result(self, key: str) -> bytes | None:
        self._schema.ensure()
        row = self._database.run(lambda session: session.row(sql.RESULT, key=key), Access.READ)
        return None if row is None or row[0] is None else bytes(row[0])

    def _purged(self, most: int) -> int:
        values = {"retention": self._retention, "most": most}
        return self._changed(sql.PURGE_KEYS, values)
