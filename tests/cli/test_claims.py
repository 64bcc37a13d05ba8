"""``acemq claims sweep``: what nothing names goes, what anything names stays."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acemq_amqp.blocking import Connection, Message, Topology
from acemq_amqp.blocking.patterns import browse
from acemq_amqp.codecs.json import JsonCodec
from acemq_amqp.patterns import ClaimCheckCodec, OutboxRecord
from acemq_amqp.patterns.waiting import driven
from acemq_stores import (
    FilesystemClaimCheckStore,
    S3ClaimCheckStore,
    SqlClaimCheckStore,
    SqlOutboxStore,
)
from tests.cli.conftest import Acemq
from tests.stores.databases import run
from tests.support.eventually import eventually
from tests.support.s3 import LOGIN, REGION, moto_server, s3_client

DAYS = 86400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A claim-check folder."""
    FilesystemClaimCheckStore(tmp_path / "claims")
    return tmp_path / "claims"


def put(folder: Path, days: float) -> str:
    """A payload that was put so many days ago."""
    key = FilesystemClaimCheckStore(folder).put(b'"large"')
    for path in (folder / key, folder / ".acemq" / f"{key}.sha256"):
        aged(path, days)
    return key


def aged(path: Path, days: float) -> None:
    moment = time.time() - days * DAYS
    os.utime(path, (moment, moment))


def kept(folder: Path) -> set[str]:
    """The payloads that are in a folder."""
    return {key for key, _ in FilesystemClaimCheckStore(folder).listing()}


def publish_claim(mq: Connection, queue: str, folder: Path) -> str:
    """Sends a message whose payload is put aside, as if long ago; gives the payload's key."""
    before = kept(folder)
    codec = ClaimCheckCodec(JsonCodec(), FilesystemClaimCheckStore(folder), threshold=0)
    mq.publisher("", queue, codec=codec).send("large")
    (key,) = kept(folder) - before
    aged(folder / key, 9)
    return key


# ------------------------------------------------------------ what is old


def test_only_old_payloads_go_and_only_with_delete(acemq: Acemq, folder: Path) -> None:
    old, young = put(folder, 9), put(folder, 1)
    stranger = folder / "report.txt"
    stranger.write_text("no payload")
    aged(stranger, 99)
    dry = acemq("claims", "sweep", folder, "--older-than", "7d", "--json")
    assert dry.data == {
        "deleted": False,
        "looked_into": [],
        "payloads": 2,
        "old": 1,
        "unnamed": 1,
        "orphans": 0,
        "removed": 0,
    }
    assert kept(folder) == {old, young, "report.txt"}
    told = acemq("claims", "sweep", folder, "--older-than", "7d")
    assert "nothing was removed" in told.out
    assert acemq("claims", "sweep", folder, "--older-than", "7d", "--delete").code == 0
    assert kept(folder) == {young, "report.txt"}
    assert not (folder / ".acemq" / f"{old}.sha256").exists()


def test_what_crashes_left_goes_when_it_is_old(acemq: Acemq, folder: Path) -> None:
    keys = [put(folder, 9) for _ in range(2)]
    for key in keys:
        (folder / key).unlink()
    ours = folder / ".acemq"
    (ours / f"{keys[0]}.partial").write_bytes(b"half")
    aged(ours / f"{keys[0]}.partial", 9)
    aged(ours / f"{keys[1]}.sha256", 1)
    words = ("claims", "sweep", folder, "--older-than", "7d", "--json")
    assert acemq(*words).data["orphans"] == 2
    assert acemq(*words, "--delete").data["removed"] == 2
    assert [path.name for path in ours.iterdir()] == [f"{keys[1]}.sha256"]


# ------------------------------------------------------------ what is named


def test_what_an_outbox_names_stays_whatever_became_of_the_record(
    acemq: Acemq,
    folder: Path,
    database: str,
) -> None:
    keys = [put(folder, 9) for _ in range(4)]
    store = SqlOutboxStore(database, max_attempts=1)
    frames = [b"\xac\x01\x01" + key.encode() for key in keys[:3]]
    inline = b"\xac\x01\x00" + keys[3].encode()  # a payload, and no key
    store.add_many([OutboxRecord(f"m-{n}", "", "q", body) for n, body in enumerate(frames)])
    store.add(OutboxRecord("m-4", "", "q", inline))
    rows = driven(store.claim("relay", 10)).rows
    assert driven(store.record_failure("relay", rows[0], "refused"))
    driven(store.mark_published("relay", rows[1:2]))
    store.close()
    words = ("claims", "sweep", folder, "--older-than", "7d", "--delete", "--json")
    found = acemq(*words, "--database", database).data
    assert found["removed"] == 1
    assert found["looked_into"] == [{"place": "outbox acemq_outbox", "messages": 3}]
    assert kept(folder) == set(keys[:3])


def test_an_outbox_that_cannot_be_read_stops_it(acemq: Acemq, folder: Path, tmp_path: Path) -> None:
    key = put(folder, 9)
    (tmp_path / "empty.db").touch()
    database = f"sqlite:///{tmp_path}/empty.db"
    words = ("claims", "sweep", folder, "--older-than", "7d", "--delete", "--database", database)
    assert acemq(*words).code == 2
    assert kept(folder) == {key}


@pytest.mark.server
def test_what_a_queue_names_stays_and_the_queue_is_as_it_was(
    acemq: Acemq, folder: Path, mq: Connection, amqp_url: str
) -> None:
    mq.declare(Topology().queue("orders", dead_letter=True))
    named = publish_claim(mq, "orders.dlq", folder)
    unnamed = put(folder, 9)
    words = ("claims", "sweep", folder, "--older-than", "7d", "--delete", "--url", amqp_url)
    ended = acemq(*words, "--queue", "orders.dlq", "--queue", "orders.parked")
    assert (ended.code, ended.err) == (0, "")
    assert kept(folder) == {named} and unnamed != named
    eventually(lambda: mq.message_count("orders.dlq") == 1, "the message given back")


@pytest.mark.server
def test_what_a_stream_names_stays(
    acemq: Acemq, folder: Path, mq: Connection, amqp_url: str
) -> None:
    mq.declare(Topology().stream("log"))
    named = {publish_claim(mq, "log", folder) for _ in range(3)}
    put(folder, 9)
    words = ("claims", "sweep", folder, "--older-than", "7d", "--delete", "--url", amqp_url)
    ended = acemq(*words, "--stream", "log", "--json")
    assert ended.data["looked_into"] == [{"place": "stream log", "messages": 3}]
    assert kept(folder) == named


@pytest.mark.server
def test_quorum_queues_and_queues_with_consumers_stop_it(
    acemq: Acemq, folder: Path, mq: Connection, amqp_url: str
) -> None:
    key = put(folder, 9)
    mq.declare(Topology().queue("orders", dead_letter=True))
    words = ("claims", "sweep", folder, "--older-than", "7d", "--delete", "--url", amqp_url)
    ended = acemq(*words, "--queue", "orders")
    assert ended.code == 2 and "it is a quorum queue" in ended.err
    with mq.consume("orders.dlq", lambda message: None, declare=False):
        ended = acemq(*words, "--queue", "orders.dlq")
    assert ended.code == 2 and "has 1 consumers" in ended.err
    ended = acemq(*words, "--queue", "missing")
    assert ended.code == 1 and "there is no queue 'missing'" in ended.err
    assert kept(folder) == {key}


@pytest.mark.server
def test_a_queue_that_is_seen_in_part_stops_it(
    acemq: Acemq,
    folder: Path,
    mq: Connection,
    amqp_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = put(folder, 9)
    mq.declare(Topology().queue("orders", dead_letter=True))
    mq.publisher("", "orders.dlq").send_many(range(3))

    def beside_another(connection: Any, queue: str) -> list[Message]:
        delivery = mq.pull(queue)  # another takes one between counting and looking
        assert delivery is not None
        return browse(connection, queue)

    monkeypatch.setattr("acemq_amqp.cli.named_keys.browse", beside_another)
    words = ("claims", "sweep", folder, "--older-than", "7d", "--delete", "--url", amqp_url)
    ended = acemq(*words, "--queue", "orders.dlq")
    assert ended.code == 1
    assert "holds 3 messages and 2 were seen" in ended.err
    assert kept(folder) == {key}


# ------------------------------------------------------------ other stores


def test_a_table_of_payloads_is_swept(acemq: Acemq, database: str) -> None:
    store = SqlClaimCheckStore(database)
    old, young = store.put(b"old"), store.put(b"young")
    run(
        database, f"UPDATE acemq_claim_check SET created = created - {9 * DAYS} WHERE key = '{old}'"
    )
    assert acemq("claims", "sweep", database, "--older-than", "7d", "--delete").code == 0
    assert [key for key, _ in store.listing()] == [young]
    store.close()


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An S3 server, with a login for it in the environment."""
    for name, value in (LOGIN | {"aws_default_region": REGION}).items():
        monkeypatch.setenv(name.upper(), value)
    with moto_server() as url:
        yield url


def test_a_bucket_is_swept(acemq: Acemq, s3: str) -> None:
    bucket, client = f"claims-{secrets.token_hex(4)}", s3_client(s3)
    place = {"LocationConstraint": REGION}
    client.create_bucket(Bucket=bucket, CreateBucketConfiguration=place)
    client.put_object(Bucket=bucket, Key="shop/report.txt", Body=b"")
    store = S3ClaimCheckStore(bucket, prefix="shop/", client=client)
    store.put(b"a payload")
    words = ("claims", "sweep", f"s3://{bucket}/shop/", "--endpoint-url", s3, "--delete", "--json")
    assert acemq(*words, "--older-than", "1d").data["removed"] == 0
    eventually(
        lambda: acemq(*words, "--older-than", "1ms").data["payloads"] == 0, "the payload removed"
    )
    assert [key for key, _ in store.listing()] == ["report.txt"]
    client.close()
    ended = acemq("claims", "sweep", "s3://no-such", "--endpoint-url", s3, "--older-than", "1d")
    assert ended.code == 2 and "no-such" in ended.err
