"""A relay that is stopped between two of its statements: after its lease others have its records.

What it holds open in the database would otherwise be nobody's for as long as it sleeps.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from acemq_amqp.patterns.waiting import driven
from acemq_stores import SqlOutboxStore
from acemq_stores.sql.rendering import Statement
from acemq_stores.sql.session import Session
from tests.stores.test_outbox_callers import made
from tests.support.eventually import eventually

IDS = {"keyed-1", "keyed-2", "keyless"}


class Stop:
    """Stops whoever comes to a statement as ``sleeper``, until it is let go."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stopped, self.go_on = threading.Event(), threading.Event()
        self._name = name
        for method in ("rows", "change"):
            monkeypatch.setattr(Session, method, self._stopping(getattr(Session, method)))

    def _stopping(self, method: Any) -> Any:
        def called(session: Session, statement: Statement, **values: Any) -> Any:
            if statement.name == self._name and values.get("token") == "sleeper":
                self.stopped.set()
                assert self.go_on.wait(120)
            return method(session, statement, **values)

        return called


@pytest.fixture
def stores(postgres_database: str) -> Iterator[tuple[SqlOutboxStore, SqlOutboxStore]]:
    stores = [SqlOutboxStore(postgres_database, lease=1) for _ in range(2)]
    stores[0].add_many([made("keyed-1", "k"), made("keyed-2", "j"), made("keyless")])
    yield stores[0], stores[1]
    for store in stores:
        store.close()


@pytest.mark.server
@pytest.mark.parametrize("name", ["renew_buckets", "take_buckets", "keyed_rows", "claim_keyless"])
def test_others_take_over_whatever_it_was_about_to_do(
    stores: tuple[SqlOutboxStore, SqlOutboxStore], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    sleepers, others = stores
    stop = Stop(name, monkeypatch)
    with ThreadPoolExecutor(1) as thread:
        asleep = thread.submit(lambda: driven(sleepers.claim("sleeper", 10)))
        assert stop.stopped.wait(60)
        found: set[str] = set()

        def all_found() -> bool:
            rows = driven(others.claim("other", 10)).rows
            found.update(row.record.id for row in rows)
            return found == IDS

        eventually(all_found, "another relay with all records")
        stop.go_on.set()
        late = asleep.result(60).rows
    assert driven(sleepers.mark_published("sleeper", late)) == 0
