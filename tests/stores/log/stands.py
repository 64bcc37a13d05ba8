"""The stores of event logs that one suite runs on, and a short way to ask them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from acemq_amqp.eventlog.memory_store import InMemoryLogStore
from acemq_amqp.eventlog.store import Fence, LaneLease, LogStore, Position, Query, Step, WindowRow
from acemq_amqp.patterns import OutboxRecord
from acemq_stores import SqlLogStore
from tests.stores import databases
from tests.stores.conftest import Call

LEASE = 30.0
_numbers = itertools.count(1)


@contextmanager
def sqlite_address() -> Iterator[str]:
    """A new SQLite database, in memory's file system where there is one: no test here is about
    what a disk keeps, and each commit waits for it three times."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield f"sqlite:///{folder}/log.db"


class Stand:
    """A store, and a way to let time pass in it."""

    def __init__(self, database: str | None) -> None:
        self.database = database
        self.later = 0.0
        self.store: Any
        if database is None:
            self.store = InMemoryLogStore(lease=LEASE, clock=lambda: self.later)
        else:
            self.store = SqlLogStore(database, lease=LEASE)

    def pass_time(self, seconds: float) -> None:
        """What was written before is so much older now."""
        self.later += seconds
        if self.database is not None:
            databases.run(
                self.database,
                f"UPDATE acemq_log SET until = until - {seconds}",
                f"UPDATE acemq_log_lanes SET until = until - {seconds}",
                f"UPDATE acemq_log_seen SET at = at - {seconds}",
            )

    def records(self, beginning: str) -> list[str]:
        """Ids of what waits in the outbox, of those that begin so."""
        if self.database is None:
            ids = [entry.record.id for entry in self.store.outbox._entries.values()]
        else:
            ids = [id_ for (id_,) in databases.rows(self.database, "SELECT id FROM acemq_outbox")]
        return sorted(id_ for id_ in ids if id_.startswith(beginning))

    def close(self) -> None:
        """Lets go of the database."""
        if self.database is not None:
            self.store.close()


class Group:
    """One group in one stream, under names that no other test has."""

    def __init__(self, stand: Stand, call: Call) -> None:
        number = next(_numbers)
        self.stand, self.call = stand, call
        self.name, self.stream, self.query = f"g{number}", f"s{number}", f"q{number}"

    @property
    def store(self) -> LogStore:
        """The store."""
        store: LogStore = self.stand.store
        return store

    # ------------------------------------------------------------ positions

    def create(self, next: int = 10, anchor: str = "m9") -> Position:
        """Puts it at an offset."""
        position: Position = self.call(self.store.create(self.name, self.stream, next, anchor))
        return position

    def position(self) -> Position:
        """Where it stands."""
        position: Position | None = self.call(self.store.position(self.name, self.stream))
        assert position is not None
        return position

    def hold(self, holder: str) -> Position | None:
        """Takes the stream."""
        position: Position | None = self.call(self.store.hold(self.name, self.stream, holder))
        return position

    def held(self, holder: str = "one") -> Fence:
        """Takes the stream, which must be free."""
        position = self.hold(holder)
        assert position is not None
        return position.fence

    def commits(self, fence: Fence, upto: int, holder: str = "one", **step: Any) -> bool:
        """Commits a step."""
        done: bool = self.call(self.store.commit(fence, holder, Step(upto, **step)))
        return done

    def seeks(self, next: int, anchor: str = "", lane: str | None = None) -> Position | None:
        """Moves it."""
        position: Position | None = self.call(
            self.store.seek(self.name, self.stream, next, anchor, lane)
        )
        return position

    # ------------------------------------------------------------ lanes

    def lanes(self) -> dict[str, tuple[int, int, str]]:
        """Rows of lanes: next, attempts, token."""
        return {row.lane: (row.next, row.attempts, row.token) for row in self.position().lanes}

    def leases(
        self, wanted: Mapping[str, int], token: str = "t", fence: Fence | None = None
    ) -> list[LaneLease]:
        """Leases lanes."""
        fence = fence or self.position().fence
        leased: list[LaneLease] = self.call(self.store.lease_lanes(fence, wanted, token))
        return leased

    def settles(
        self,
        moved: Mapping[str, int],
        freed: Sequence[str] = (),
        token: str = "t",
        fence: Fence | None = None,
        **output: Any,
    ) -> set[str]:
        """Settles lanes."""
        fence = fence or self.position().fence
        mine: set[str] = self.call(self.store.settle_lanes(fence, token, moved, freed, **output))
        return mine

    def advances(self, next: int, anchor: str = "", fence: Fence | None = None) -> bool:
        """Moves the watermark."""
        fence = fence or self.position().fence
        done: bool = self.call(self.store.advance(fence, next, anchor))
        return done

    # ------------------------------------------------------------ windows

    def registers(self, shape: str = "shape", reset: str | None = None) -> Query:
        """Makes its query known."""
        query: Query = self.call(self.store.register(self.query, shape, reset))
        return query

    def windows(self, query: Query, *pairs: tuple[str, str]) -> list[WindowRow]:
        """Open windows, in order."""
        found = self.call(self.store.windows(query, self.stream, pairs))
        return sorted(found, key=lambda row: (row.lane, row.key, row.start))

    def ripe(
        self, query: Query, upto: float | Mapping[str, float], most: int = 100
    ) -> list[WindowRow]:
        """Windows that close."""
        found: list[WindowRow] = self.call(self.store.ripe(query, self.stream, upto, most))
        return found

    def watermarks(self, query: Query) -> dict[str, float]:
        """Of its lanes."""
        found: dict[str, float] = self.call(self.store.watermarks(query, self.stream))
        return found

    def unseen(self, *ids: str) -> set[str]:
        """What it has not handled."""
        found: set[str] = self.call(self.store.unseen(self.name, ids))
        return found

    # ------------------------------------------------------------ output

    def record(self, id_: str) -> OutboxRecord:
        """A record whose id no other test has."""
        return OutboxRecord(f"{self.name}-{id_}", "", "q", b"\x00{}", "", b"", self.stream)

    def out(self) -> list[str]:
        """What it has put into the outbox."""
        beginning = f"{self.name}-"
        return [id_.removeprefix(beginning) for id_ in self.stand.records(beginning)]


def window(
    lane: str = "a", key: str = "k", start: float = 0.0, closes: float = 10.0, state: str = "{}"
) -> WindowRow:
    """A row."""
    return WindowRow(lane, key, start, start + 10, closes, 0, state)
