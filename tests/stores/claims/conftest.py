"""Each case of the suite runs on every store."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stores.claims.stands import (
    FilesystemStand,
    MemoryStand,
    S3Stand,
    StoreStand,
    postgres_stand,
    sqlite_stand,
)
from tests.support.postgres import fresh_database, postgres_server
from tests.support.s3 import Answer, TellingServer, moto_server

_LASTING = ["filesystem", "s3", "sqlite", pytest.param("postgres", marks=pytest.mark.server)]


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """An S3 server."""
    with moto_server() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_address() -> Iterator[str]:
    """A PostgreSQL to make databases in."""
    with postgres_server() as address:
        yield address


@pytest.fixture
def s3(s3_url: str) -> S3Stand:
    """A store over a bucket of its own."""
    return S3Stand(s3_url, f"claims-{secrets.token_hex(6)}")


@pytest.fixture
def telling() -> Iterator[Callable[..., TellingServer]]:
    """Starts S3 servers that give the answers they are told to; gone after the test."""
    started: list[TellingServer] = []

    def start(*answers: Answer) -> TellingServer:
        started.append(TellingServer(*answers))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture(params=_LASTING)
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreStand]:
    """A store whose payloads outlive the program."""
    yield from _stand(request, tmp_path)


@pytest.fixture(params=["memory", *_LASTING])
def stand(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Any store."""
    yield from _stand(request, tmp_path)


def _stand(request: pytest.FixtureRequest, folder: Path) -> Iterator[Any]:
    match request.param:
        case "memory":
            yield MemoryStand()
        case "filesystem":
            yield FilesystemStand(folder / "payloads")
        case "s3":
            yield request.getfixturevalue("s3")
        case "sqlite":
            with sqlite_stand(folder) as stand:
                yield stand
        case _:
            server = request.getfixturevalue("postgres_address")
            with fresh_database(server) as address, postgres_stand(address) as stand:
                yield stand
