"""``acemq dlq`` on a RabbitMQ: what it shows is there, and stays; what it moves is moved."""

from __future__ import annotations

from typing import Any

import pytest

from acemq_amqp import Envelope
from acemq_amqp.blocking import Connection, Topology
from acemq_amqp.codecs.bytes import BytesCodec
from tests.cli.conftest import Acemq
from tests.support.eventually import eventually

pytestmark = pytest.mark.server

ERRORS = ["the bank did not answer", "no address", "the bank did not answer"]


@pytest.fixture(autouse=True)
def dead(mq: Connection, monkeypatch: pytest.MonkeyPatch, acemq: Acemq, amqp_url: str) -> None:
    """Three dead letters of ``orders``."""
    monkeypatch.setenv("AMQP_URL", amqp_url)
    mq.declare(Topology().queue("orders", dead_letter=True))
    for number, error in enumerate(ERRORS, 1):
        envelope = Envelope(id=f"m-{number}", type="order", attempt=3, error=error)
        mq.publisher("", "orders.dlq").send({"order": number}, envelope=envelope)
    count(mq, "orders.dlq", 3)


def count(mq: Connection, queue: str, wanted: int) -> None:
    eventually(lambda: mq.message_count(queue) == wanted, f"{wanted} messages in {queue}")


def ids(mq: Connection, queue: str) -> list[Any]:
    """The ids of all that is in a queue, in its order."""
    found = []
    while (delivery := mq.pull(queue)) is not None:
        found.append(delivery.headers["x-acemq-id"])
        delivery.ack()
    return found


def test_list_counts_dead_letters_and_parked_ones(acemq: Acemq) -> None:
    ended = acemq("dlq", "list", "orders", "missing", "--json")
    assert ended.code == 1
    assert [(each["queue"], each["messages"]) for each in ended.data] == [
        ("orders.dlq", 3),
        ("orders.parked", 0),
        ("missing.dlq", None),
        ("missing.parked", None),
    ]
    told = acemq("dlq", "list", "orders.dlq")
    assert told.code == 0
    assert told.out.split()[-2:] == ["orders.dlq", "3"]
    assert acemq("dlq", "list", "missing").code == 1


def test_show_tells_why_and_leaves_them(acemq: Acemq, mq: Connection) -> None:
    ended = acemq("dlq", "show", "orders.dlq")
    assert ended.code == 0
    rows = [row.split() for row in ended.out.splitlines()]
    assert [row[:3] for row in rows if row and row[0].startswith("m-")] == [
        ["m-1", "order", "3"],
        ["m-2", "order", "3"],
        ["m-3", "order", "3"],
    ]
    assert "the bank did not answer" in ended.out
    chosen = acemq("dlq", "show", "orders.dlq", "--id", "m-2", "--json").data
    assert [(each["id"], each["error"], each["body"]) for each in chosen] == [
        ("m-2", "no address", '{"order":2}')
    ]
    assert '{"order":1}' in acemq("dlq", "show", "orders.dlq", "--full", "--limit", 1).out
    count(mq, "orders.dlq", 3)
    assert ids(mq, "orders.dlq") == ["m-1", "m-2", "m-3"]


def test_a_body_that_is_no_text_is_shown_too(acemq: Acemq, mq: Connection) -> None:
    mq.publisher("", "orders.parked", codec=BytesCodec()).send(b"\xff\x1b[31m")
    count(mq, "orders.parked", 1)
    assert acemq("dlq", "show", "orders.parked", "--json").data[0]["body_base64"] == "/xtbMzFt"
    shown = acemq("dlq", "show", "orders.parked", "--full").out
    assert r"b'\xff\x1b[31m'" in shown and "\x1b" not in shown


def test_a_quorum_queue_is_not_shown(acemq: Acemq, mq: Connection) -> None:
    mq.declare(Topology().queue("other.dlq"))
    mq.publisher("", "other.dlq").send(1)
    count(mq, "other.dlq", 1)
    ended = acemq("dlq", "show", "other.dlq")
    assert ended.code == 2
    assert "it is a quorum queue, which counts every look" in ended.err
    delivery = mq.pull("other.dlq")
    assert delivery is not None and not delivery.redelivered


def test_replay_sends_them_back(acemq: Acemq, mq: Connection) -> None:
    dry = acemq("dlq", "replay", "orders.dlq", "--dry-run")
    assert dry.out == "3 messages of orders.dlq would be replayed\n"
    chosen = acemq("dlq", "replay", "orders.dlq", "--error", "bank", "--json").data
    assert (chosen["replayed"], chosen["passed_over"]) == (2, 1)
    count(mq, "orders.dlq", 1)
    assert acemq("dlq", "replay", "orders.dlq").out == "1 message of orders.dlq replayed\n"
    assert ids(mq, "orders") == ["m-1", "m-3", "m-2"]


def test_a_replay_to_nowhere_exits_1_and_moves_nothing(acemq: Acemq, mq: Connection) -> None:
    mq.delete_queue("orders")
    ended = acemq("dlq", "replay", "orders.dlq")
    assert (ended.code, ended.out) == (1, "")
    assert "there is no queue 'orders'" in ended.err
    assert ids(mq, "orders.dlq") == ["m-1", "m-2", "m-3"]


def test_park_moves_them_with_their_error(acemq: Acemq, mq: Connection) -> None:
    assert acemq("dlq", "park", "orders.dlq", "--id", "m-2").code == 0
    count(mq, "orders.parked", 1)
    (parked,) = acemq("dlq", "show", "orders.parked", "--json").data
    assert (parked["id"], parked["error"], parked["attempt"]) == ("m-2", "no address", 3)
    count(mq, "orders.dlq", 2)


def test_purge_drops_dead_letters_and_nothing_else(acemq: Acemq, mq: Connection) -> None:
    assert acemq("dlq", "purge", "orders", "--yes").code == 2
    assert acemq("dlq", "purge", "orders.dlq", "--yes").out == "3 messages of orders.dlq dropped\n"
    count(mq, "orders.dlq", 0)


def test_purge_asks(acemq: Acemq, mq: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    ended = acemq("dlq", "purge", "orders.dlq")
    assert ended.code == 1 and "nothing was done" in ended.err
    assert mq.message_count("orders.dlq") == 3
