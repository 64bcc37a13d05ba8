"""What cannot work is refused where it is written down, and not at the first message."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy

from acemq_amqp import ConfigurationError
from acemq_amqp.codec import JsonCodec
from acemq_amqp.patterns import (
    ClaimCheckCodec,
    InMemoryClaimCheckStore,
    InMemoryIdempotencyStore,
    OutboxRecord,
    idempotent,
    transactional,
)
from acemq_stores import FilesystemClaimCheckStore, SqlOutboxStore

ANY: Any = InMemoryClaimCheckStore()
SEEN: Any = InMemoryIdempotencyStore()


def one(message: Any) -> None: ...


def two(message: Any, tx: Any) -> None: ...


WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "no folder": (lambda none: FilesystemClaimCheckStore(none), "a folder is wanted"),
    "empty folder": (lambda none: FilesystemClaimCheckStore(""), "a folder is wanted"),
    "bytes": (lambda none: FilesystemClaimCheckStore(b"x"), "a folder is wanted"),  # type: ignore[arg-type]
    "no codec": (lambda none: ClaimCheckCodec(none, ANY), "wants an object with content_type"),
    "no store": (lambda none: ClaimCheckCodec(JsonCodec(), none), "is no claim-check store"),
    "half": (lambda n: ClaimCheckCodec(JsonCodec(), ANY, threshold=1.5), "threshold"),  # type: ignore[arg-type]
    "text": (lambda n: ClaimCheckCodec(JsonCodec(), ANY, threshold="x"), "threshold"),  # type: ignore[arg-type]
    "key": (lambda none: idempotent(SEEN, one, key=5), "key= wants a function"),  # type: ignore[arg-type]
    "scope": (lambda none: idempotent(SEEN, one, scope=none), "scope= wants text"),
    "codec": (lambda none: idempotent(SEEN, one, codec=5), "wants an object with"),  # type: ignore[arg-type]
    "more": (lambda none: idempotent(SEEN, two), "is called with 1 argument"),  # type: ignore[arg-type]
    "tx key": (lambda n: transactional("sqlite:///x", two, key=5), "key= wants a function"),  # type: ignore[arg-type]
    "tx scope": (lambda none: transactional("sqlite:///x", two, scope=none), "scope= wants"),
    "fewer": (lambda none: transactional("sqlite:///x", one), "is called with 2 arguments"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("call", "words"), WRONG.values(), ids=WRONG)
def test_it_is_refused_at_once(call: Callable[..., Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        call(None)


@pytest.mark.parametrize("kind", ["driver", "sqlalchemy"])
def test_a_closed_connection_is_told(tmp_path: Any, kind: str) -> None:
    connection: Any = sqlite3.connect(tmp_path / "x.db")
    if kind == "sqlalchemy":
        connection.close()
        engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/x.db")
        connection = engine.connect()
    connection.close()
    with (
        closing(SqlOutboxStore(f"sqlite:///{tmp_path}/x.db")) as store,
        pytest.raises(ConfigurationError, match=r"connection= cannot be used .*closed"),
    ):
        store.add(OutboxRecord("1", "", "q", b""), connection=connection)
