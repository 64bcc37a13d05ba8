"""One store for all tests of a module on each database; each test has a group of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stores.conftest import Call
from tests.stores.log.stands import Group, Stand, sqlite_address
from tests.support.postgres import fresh_database


@pytest.fixture(
    scope="module",
    params=["memory", "sqlite", pytest.param("postgresql", marks=pytest.mark.server)],
)
def stand(request: pytest.FixtureRequest) -> Iterator[Stand]:
    """A store in memory, on SQLite, on PostgreSQL."""
    if request.param == "postgresql":
        with fresh_database(request.getfixturevalue("postgres")) as address:
            yield from _closing(Stand(address))
    elif request.param == "sqlite":
        with sqlite_address() as address:
            yield from _closing(Stand(address))
    else:
        yield Stand(None)


def _closing(stand: Stand) -> Iterator[Stand]:
    yield stand
    stand.close()


@pytest.fixture
def group(stand: Stand, call: Call) -> Group:
    """A group that is nowhere yet."""
    return Group(stand, call)


@pytest.fixture
def other(stand: Stand, call: Call) -> Group:
    """Another."""
    return Group(stand, call)
