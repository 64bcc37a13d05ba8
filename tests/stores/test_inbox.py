"""Inbox: the work, the claim and the outbox records of a message are one commit."""

from __future__ import annotations

import asyncio
import functools
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool

from acemq_amqp import ConfigurationError, Envelope, Message, accept, park, patterns, reject, retry
from acemq_amqp.ack import Ack, AckKind
from acemq_amqp.codec import JsonCodec
from acemq_amqp.patterns import Claim, OutboxRecord, transactional
from acemq_amqp.patterns.waiting import driven
from acemq_stores import SqlIdempotencyStore, SqlOutboxStore, create_schema
from tests.stores import databases
from tests.stores.test_idempotency import lapsed_keys
from tests.support.ports import free_port

Handle = Callable[[Message], Ack]


def message(id_: str = "id-1") -> Message:
    return Message(None, Envelope(id=id_))


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Closes what the wrappers of a test hold."""
    wrappers: list[Any] = []

    def remembered(*arguments: Any, **options: Any) -> Any:
        wrappers.append(patterns.transactional(*arguments, **options))
        return wrappers[-1]

    monkeypatch.setitem(globals(), "transactional", remembered)
    yield
    for wrapper in wrappers:
        wrapper.close()


@pytest.fixture
def work(database: str) -> str:
    """A database with a table to work on."""
    create_schema(database)
    databases.run(database, "CREATE TABLE done (id text)")
    return database


def note(tx: Any, message: Message) -> None:
    mark = "?" if isinstance(tx, sqlite3.Connection) else "%s"
    tx.execute(f"INSERT INTO done VALUES ({mark})", (message.envelope.id,))


def note_nothing(message: Message, tx: Any) -> None:
    pytest.fail("called without a transaction")


def done(database: str) -> list[str]:
    return [id_ for (id_,) in databases.rows(database, "SELECT id FROM done ORDER BY id")]


def test_what_was_accepted_is_committed_and_not_done_again(work: str) -> None:
    handle = transactional(work, lambda message, tx: note(tx, message))
    kinds = [handle(message(id_)).kind for id_ in ("id-1", "id-1", "id-2")]
    assert kinds == [AckKind.ACCEPT] * 3
    assert done(work) == ["id-1", "id-2"]


def test_a_result_is_kept_in_the_same_commit_and_given_again(work: str) -> None:
    handle = transactional(work, lambda message, tx: accept({"total": 12}), codec=JsonCodec())
    assert [handle(message()).result for _ in range(2)] == [{"total": 12}] * 2


def test_a_result_past_the_limit_is_not_kept_and_told(
    work: str, caplog: pytest.LogCaptureFixture
) -> None:
    handle = transactional(work, lambda message, tx: accept("x" * 65535))  # and two quotes
    assert [handle(message()).result for _ in range(2)] == ["x" * 65535, None]
    assert "the result of 'id-1' is not kept: it has 65537 bytes" in caplog.text


@pytest.mark.parametrize("answer", [retry("x"), reject("x"), park("x")])
def test_anything_but_accept_undoes_all_of_it(work: str, answer: Ack) -> None:
    def once(message: Message, tx: Any) -> Ack:
        note(tx, message)
        return answers.pop(0)

    answers = [answer, accept()]
    handle = transactional(work, once)
    assert handle(message()) == answer
    assert done(work) == []
    assert handle(message()).kind is AckKind.ACCEPT
    assert done(work) == ["id-1"]


def test_a_raise_undoes_all_of_it_and_passes_through(work: str) -> None:
    def fail(message: Message, tx: Any) -> None:
        note(tx, message)
        raise LookupError("no such order")

    with pytest.raises(LookupError, match="no such order"):
        transactional(work, fail)(message())
    assert done(work) == []


def test_a_statement_of_the_handler_s_that_fails_is_its_own_failure(work: str) -> None:
    def fail(message: Message, tx: Any) -> None:
        note(tx, message)
        tx.execute("INSERT INTO nowhere VALUES (1)")

    with pytest.raises((sqlite3.Error, psycopg.Error), match="nowhere"):
        transactional(work, fail)(message())
    assert done(work) == []


def test_what_an_idempotent_handler_has_begun_is_waited_for_and_not_taken_for_handled(
    work: str,
) -> None:
    begun = SqlIdempotencyStore(work)
    assert driven(begun.claim("id-1", "a worker of the release before")) is Claim.CLAIMED
    handle = transactional(work, lambda message, tx: note(tx, message))
    assert handle(message()).kind is AckKind.IN_PROGRESS
    databases.run(work, "UPDATE acemq_idempotency SET until = 0")  # it died, and its lease is over
    assert handle(message()).kind is AckKind.ACCEPT
    assert done(work) == ["id-1"]
    begun.close()


def test_messages_keep_up_with_the_keys_that_are_to_be_removed(work: str) -> None:
    databases.run(work, lapsed_keys(2500))
    handle = transactional(work, lambda message, tx: note(tx, message))
    for number in range(3):
        handle(message(f"id-{number}"))
    assert databases.rows(work, "SELECT count(*) FROM acemq_idempotency") == [(3,)]


def test_outbox_records_go_with_the_transaction(work: str) -> None:
    store = SqlOutboxStore(work)

    def send(message: Message, tx: Any) -> Ack:
        id_ = f"caused-by-{message.envelope.id}"
        store.add(OutboxRecord(id_, "", "q", b"", ordering_key="k"), connection=tx)
        return accept() if message.envelope.id == "good" else retry("x")

    handle = transactional(work, send)
    for id_ in ("good", "good", "bad"):
        handle(message(id_))
    assert databases.rows(work, "SELECT id FROM acemq_outbox") == [("caused-by-good",)]
    store.close()


@pytest.mark.server
def test_a_second_delivery_while_the_first_is_open_does_not_wait(postgres_database: str) -> None:
    databases.run(postgres_database, "CREATE TABLE done (id text)")
    inside, go_on = threading.Event(), threading.Event()

    def hold(message: Message, tx: Any) -> None:
        note(tx, message)
        inside.set()
        assert go_on.wait(30)

    handle = transactional(postgres_database, hold, in_progress_delay=3)
    first = threading.Thread(target=handle, args=(message(),))
    first.start()
    assert inside.wait(30)
    ack = handle(message())
    assert (ack.kind, ack.delay) == (AckKind.IN_PROGRESS, 3.0)
    go_on.set()
    first.join()
    assert handle(message()).kind is AckKind.ACCEPT
    assert done(postgres_database) == ["id-1"]


@pytest.mark.server
def test_an_idle_session_ends_with_the_lease(postgres_database: str) -> None:
    told: list[Any] = []

    def look(message: Message, tx: Any) -> None:
        told.append(tx.execute("SHOW idle_in_transaction_session_timeout").fetchone()[0])

    transactional(postgres_database, look, lease=45)(message())
    assert told == ["45s"]


def test_on_sqlite_one_is_handled_at_a_time_and_each_once(tmp_path: Any) -> None:
    database = f"sqlite:///{tmp_path}/x.db"
    databases.run(database, "CREATE TABLE done (id text)")
    handle = transactional(database, lambda message, tx: note(tx, message))
    threads = [
        threading.Thread(target=handle, args=(message(f"id-{number % 5}"),)) for number in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done(database) == [f"id-{number}" for number in range(5)]


def test_a_database_that_is_not_there_puts_back_and_counts_no_attempt(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("acemq_stores.sql.sources.PATIENCE", 0.2)
    handle = transactional(
        f"postgresql://nobody@127.0.0.1:{free_port()}/none", note_nothing, create=False
    )
    assert handle(message()).kind is AckKind.IN_PROGRESS
    assert "'id-1' is put back" in caplog.text


def test_keys_and_scopes(work: str) -> None:
    handle = transactional(work, lambda message, tx: note(tx, message), key=lambda message: "same")
    other = transactional(
        work, lambda message, tx: note(tx, message), key=lambda message: "same", scope="other"
    )
    for each in ("a", "b"):
        handle(message(each))
        other(message(each))
    assert done(work) == ["a", "a"]


@pytest.mark.server
@pytest.mark.parametrize("autocommit", [False, True])
def test_a_callable_may_give_the_connection(postgres_database: str, autocommit: bool) -> None:
    databases.run(postgres_database, "CREATE TABLE done (id text)")
    handle = transactional(
        lambda: psycopg.connect(postgres_database, autocommit=autocommit),
        lambda message, tx: note(tx, message),
    )
    handle(message("id-1"))
    handle(message("id-1"))
    assert done(postgres_database) == ["id-1"]


# ------------------------------------------------------------ coroutine functions


@pytest.fixture(params=["address", "callable", "pool"])
async def connect(request: pytest.FixtureRequest, postgres_database: str) -> AsyncIterator[Any]:
    databases.run(postgres_database, "CREATE TABLE done (id text)")
    if request.param == "address":
        yield postgres_database
    elif request.param == "callable":
        yield functools.partial(psycopg.AsyncConnection.connect, postgres_database)
    else:
        async with AsyncConnectionPool(postgres_database, min_size=1, max_size=8) as pool:
            yield pool.connection


async def note_awaited(message: Message, tx: Any) -> Ack:
    await tx.execute("INSERT INTO done VALUES (%s)", (message.envelope.id,))
    return accept() if message.envelope.id != "bad" else reject("x")


@pytest.mark.server
async def test_an_awaited_handler_works_on_an_awaited_connection(
    connect: Any, postgres_database: str
) -> None:
    handle = transactional(connect, note_awaited)
    answers = [await handle(message(id_)) for id_ in ("id-1", "id-1", "bad")]
    assert [each.kind for each in answers] == [AckKind.ACCEPT, AckKind.ACCEPT, AckKind.REJECT]
    assert done(postgres_database) == ["id-1"]


@pytest.mark.server
async def test_awaited_repeats_at_once_are_done_once(connect: Any, postgres_database: str) -> None:
    handle = transactional(connect, note_awaited)
    answers = await asyncio.gather(*(handle(message()) for _ in range(8)))
    kinds = {each.kind for each in answers}
    assert kinds <= {AckKind.ACCEPT, AckKind.IN_PROGRESS} and AckKind.ACCEPT in kinds
    assert done(postgres_database) == ["id-1"]


@pytest.mark.server
async def test_a_cancelled_handler_undoes_all_of_it(connect: Any, postgres_database: str) -> None:
    inside = asyncio.Event()

    async def hold(message: Message, tx: Any) -> None:
        await note_awaited(message, tx)
        inside.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(transactional(connect, hold)(message()))
    await inside.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert done(postgres_database) == []
    assert (await transactional(connect, note_awaited)(message())).kind is AckKind.ACCEPT


async def _opened() -> Any: ...


async def _handled(message: Message, tx: Any) -> None: ...


@pytest.mark.parametrize(
    ("connect", "handler", "words"),
    [
        (_opened, print, "plain transactional handler"),
        (print, _handled, "wants an asynchronous connection"),
        ("mysql://x/db", _handled, "cannot connect to 'mysql:'"),
        ("sqlite://", _handled, "in-memory stores"),
        (7, _handled, "an address or a callable"),
        ("sqlite://", print, "in-memory stores"),
        (7, print, "an address or a callable"),
    ],
)
def test_pairs_that_do_not_match_are_refused_when_built(
    connect: Any, handler: Any, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        transactional(connect, handler)
