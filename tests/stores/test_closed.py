"""A store that was closed does nothing any more, and says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from acemq_amqp import Envelope, Message, StoreError
from acemq_amqp.ack import AckKind
from acemq_amqp.patterns import OutboxRecord, idempotent, transactional
from acemq_stores import SqlClaimCheckStore, SqlIdempotencyStore, SqlOutboxStore
from tests.stores import databases
from tests.stores.conftest import Call

RECORD = OutboxRecord("id-1", "", "q", b"{}")


def message() -> Message:
    return Message(None, Envelope(id="id-1"))


USES: dict[str, tuple[Callable[[str], Any], Callable[[Any, Call], Any]]] = {
    "idempotency": (SqlIdempotencyStore, lambda store, call: call(store.claim("key", "one"))),
    "outbox": (SqlOutboxStore, lambda store, call: call(store.status())),
    "outbox add": (SqlOutboxStore, lambda store, call: store.add(RECORD)),
    "claim check": (SqlClaimCheckStore, lambda store, call: store.put(b"payload")),
}


@pytest.mark.parametrize("used_before", [True, False])
@pytest.mark.parametrize("use", USES)
def test_a_closed_store_refuses(database: str, call: Call, use: str, used_before: bool) -> None:
    make, ask = USES[use]
    store = make(database)
    if used_before:
        ask(store, call)
    store.close()
    store.close()
    with pytest.raises(StoreError, match=r"acemq: the store of table '\w+' was closed by this"):
        ask(store, call)


def test_a_closed_outbox_writes_nothing_in_the_caller_s_transaction(database: str) -> None:
    store = SqlOutboxStore(database)
    store.add(RECORD)
    store.close()
    with closing(databases.opened(database)) as tx, pytest.raises(StoreError, match="was closed"):
        store.add(RECORD, connection=tx)


def test_messages_that_come_to_a_closed_store_are_put_back(
    database: str, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqlIdempotencyStore(database)
    handle = idempotent(store, lambda message: pytest.fail("it was handled"))
    store.close()
    assert handle(message()).kind is AckKind.IN_PROGRESS
    assert "was closed by this program" in caplog.text


@pytest.mark.parametrize("used_before", [True, False])
def test_messages_that_come_to_a_closed_inbox_are_put_back(
    database: str, call: Call, used_before: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def awaited(message: Message, tx: Any) -> None:
        seen.append(message)

    seen: list[Message] = []
    plain = transactional(database, lambda message, tx: seen.append(message))
    handle_awaited = transactional(database, awaited)
    handles = [plain]
    if call is asyncio.run:
        handles.append(lambda message: call(handle_awaited(message)))
    for handle in handles:
        if used_before:
            assert handle(message()).kind is AckKind.ACCEPT
    # a handler is told as a plain callable, and has a close() besides
    plain.close()  # type: ignore[attr-defined]
    handle_awaited.close()  # type: ignore[attr-defined]
    del seen[:]
    assert [handle(message()).kind for handle in handles] == [AckKind.IN_PROGRESS] * len(handles)
    assert not seen and caplog.text.count("was closed by this program") == len(handles)
