"""How relays share the buckets of an outbox.

Every relay says now and then that it is there. It holds its fair part of the buckets: what it has
beyond that it gives back, what it lacks it takes of those that nobody holds, or whose holder has
not said anything for a lease.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from acemq_stores.sql import statements as sql
from acemq_stores.sql.session import Session
from acemq_stores.sql.tables import BUCKETS

_RENEWALS: Final = 3


@dataclass(slots=True)
class _Holding:
    renewed: float
    buckets: int


class Leases:
    """The leases of relays that use one store object, by their ids.

    :param lease: seconds
    """

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._of: dict[str, _Holding] = {}

    def taken(self, session: Session, relay: str, now: float) -> float:
        """Renews a relay's lease where a third of it has passed, and evens out the buckets.

        :param now: a moment of the monotonic clock before this was asked
        :returns: seconds that are left of it, counted from ``now``
        """
        holding = self._of.get(relay)
        if (
            holding is None
            or not holding.buckets
            or now - holding.renewed >= self._lease / _RENEWALS
        ):
            holding = _Holding(now, self._evened_out(session, relay))
            self._of[relay] = holding
        return self._lease - (now - holding.renewed)

    def renewed(self, session: Session, relay: str, rows: str) -> bool:
        """Begins the lease on buckets and rows anew; False where it has ended."""
        session.change(sql.RELAY_IS_HERE, token=relay, lease=self._lease)
        held = session.rows(sql.RENEW_BUCKETS, token=relay, lease=self._lease)
        session.change(sql.RENEW_KEYLESS, token=relay, lease=self._lease, given=rows)
        holding = self._of.get(relay)
        return holding is not None and len(held) == holding.buckets

    def left(self, session: Session, relay: str, rows: str) -> None:
        """Gives everything back."""
        session.change(sql.RELAY_LEAVES, token=relay)
        session.change(sql.GIVE_ALL_BUCKETS, token=relay)
        session.change(sql.FREE_KEYLESS, token=relay, given=rows)
        self._of.pop(relay, None)

    def _evened_out(self, session: Session, relay: str) -> int:
        session.change(sql.RELAY_IS_HERE, token=relay, lease=self._lease)
        session.change(sql.RELAYS_GONE)
        relays = max(1, int(session.rows(sql.RELAYS)[0][0]))
        fair = -(-BUCKETS // relays)
        held = [row[0] for row in session.rows(sql.RENEW_BUCKETS, token=relay, lease=self._lease)]
        if len(held) > fair:
            surplus = json.dumps(held[fair:])
            session.change(sql.GIVE_BUCKETS, token=relay, given=surplus)
            return fair
        if len(held) < fair:
            taken = session.rows(
                sql.TAKE_BUCKETS, token=relay, lease=self._lease, most=fair - len(held)
            )
            return len(held) + len(taken)
        return len(held)
