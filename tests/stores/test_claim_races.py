"""Many ask for one thing at the same moment: each message has one handler, each table one maker."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from acemq_amqp.patterns import Claim
from acemq_amqp.patterns.waiting import driven
from acemq_stores import SqlIdempotencyStore
from acemq_stores.sql.tables import KINDS
from tests.stores import databases
from tests.stores.programs import begin, together

PROCESSES, IDS = 20, 1000


def test_twenty_processes_claim_a_thousand_ids_and_each_is_handled_once(database: str) -> None:
    found = together(begin("claim", database, f"holder-{n}", IDS) for n in range(PROCESSES))
    handled = Counter(each for ids in found for each in ids)
    assert handled == Counter({f"id-{number}": 1 for number in range(IDS)})


def test_twenty_threads_claim_one_id_and_one_has_it(database: str) -> None:
    store = SqlIdempotencyStore(database)
    with ThreadPoolExecutor(PROCESSES) as threads:
        found = list(threads.map(lambda n: driven(store.claim("id", str(n))), range(PROCESSES)))
    assert sorted(found, key=lambda claim: claim.value) == [Claim.CLAIMED] + [Claim.IN_PROGRESS] * (
        PROCESSES - 1
    )
    store.close()


def test_twenty_tasks_claim_one_id_and_one_has_it(database: str) -> None:
    store = SqlIdempotencyStore(database)

    async def claim() -> list[Claim]:
        return await asyncio.gather(*(store.claim("id", str(n)) for n in range(PROCESSES)))

    found = asyncio.run(claim())
    assert found.count(Claim.CLAIMED) == 1 and found.count(Claim.IN_PROGRESS) == PROCESSES - 1
    store.close()


def test_eight_processes_create_the_tables_at_once(database: str) -> None:
    assert together(begin("create", database) for _ in range(8)) == ["created"] * 8
    made = databases.rows(database, "SELECT name, version FROM acemq_schema ORDER BY name")
    assert [name for name, _ in made] == sorted(kind.table for kind in KINDS.values())
    assert databases.rows(database, "SELECT count(*) FROM acemq_outbox_buckets") == [(64,)]


@pytest.mark.server
def test_a_store_that_stalls_does_not_hold_up_the_loop(postgres_database: str) -> None:
    store = SqlIdempotencyStore(postgres_database)
    driven(store.claim("other", "one"))
    blocker = databases.opened(postgres_database)
    blocker.execute("LOCK TABLE acemq_idempotency IN ACCESS EXCLUSIVE MODE")

    async def both() -> tuple[int, Claim]:
        claim = asyncio.create_task(store.claim("id", "one"))
        turns = 0
        for _ in range(20):  # the loop goes on, while the claim waits for the table
            await asyncio.sleep(0)
            turns += not claim.done()
        blocker.rollback()
        return turns, await claim

    assert asyncio.run(both()) == (20, Claim.CLAIMED)
    blocker.close()
    store.close()
