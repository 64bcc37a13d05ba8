"""The demo: what it prints, what it leaves, and its exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from acemq_amqp.demo import async_part, pattern_scenario, run_demo, scenario
from acemq_amqp.demo.findings import EXPECTED, Findings, wrong_counts
from acemq_amqp.demo.pattern_findings import out_of_order
from acemq_amqp.errors import PublishRefused
from acemq_amqp.transports.memory import forget_memory_broker, memory_broker
from tests.acceptance.programs import run_python, surroundings
from tests.support.ports import free_port
from tests.support.stands import Stand

COUNTS = {
    "orders confirmed": 300,
    "sent to nobody": 1,
    "handler calls": 331,
    "waits held here": 23,
    "waits in the broker": 8,
    "orders handled": 297,
    "handled twice": 0,
    "dead: out of tries": 2,
    "dead: rejected": 1,
    "parked": 1,
    "left in the queue": 0,
    "documents put aside": 10,
    "documents read": 20,
    "payments made": 30,
    "known already": 10,
    "orders told": 20,
    "told and not there": 0,
    "told out of order": 0,
    "jobs handled": 60,
    "consumers at work": 4,
    "scans read": 4,
    "read by another": 4,
    "read again": 4,
    "the other moved by": 0,
    "windows closed": 2,
    "their takings": 9,
    "windows open": 2,
}


def rows(printed: str) -> dict[str, tuple[int, ...]]:
    """The counts of the table: expected, async, blocking."""
    found = re.findall(r"^  (\w.*?) +(\d+) +(\d+) +(\d+)   \S", printed, re.MULTILINE)
    return {label: tuple(map(int, counts)) for label, *counts in found}


def shows_all(printed: str) -> None:
    assert rows(printed) == {label: (count,) * 3 for label, count in COUNTS.items()}
    assert "order 42   attempt 3   exhausted 3 attempts: BankSilent: no answer" in printed
    assert "order 113  attempt 1   the handler rejected it: order 113 has no address" in printed
    assert "24 bytes   attempt 1   could not be decoded: DecodeError: " in printed
    assert printed.splitlines()[-1] == "PASS: every count is as expected, in both flavours."


def test_without_a_broker_it_plays_in_memory_and_leaves_no_file(tmp_path: Path) -> None:
    here = {**surroundings(None), "TMPDIR": str(tmp_path)}
    ended = run_python(["-m", "acemq_amqp", "demo"], here)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []
    assert "memory://demo" in ended.stdout
    shows_all(ended.stdout)


@pytest.mark.server
def test_on_rabbitmq_it_passes_and_leaves_nothing_of_its_own(
    rabbitmq: Stand, amqp_url: str, vhost: str
) -> None:
    ended = run_python(["-m", "acemq_amqp", "demo"], surroundings(amqp_url))
    assert (ended.returncode, ended.stderr) == (0, "")
    shows_all(ended.stdout)
    if rabbitmq.control is not None:
        for kind in ("list_queues", "list_exchanges"):
            assert "acemq-demo." not in rabbitmq.control.ctl(kind, "-p", vhost, "name")


def test_where_nobody_listens_it_says_so_and_exits_2() -> None:
    dead = f"amqp://guest:geheim@127.0.0.1:{free_port()}/"
    ended = run_python(["-m", "acemq_amqp", "demo"], surroundings(dead))
    assert ended.returncode == 2
    assert ended.stderr.startswith("acemq: cannot connect to amqp://guest@127.0.0.1:")
    assert "Traceback" not in ended.stderr
    assert "geheim" not in ended.stderr + ended.stdout


def test_an_address_that_is_none_exits_2() -> None:
    ended = run_python(["-m", "acemq_amqp", "demo"], surroundings("localhost"))
    assert ended.returncode == 2
    assert ended.stderr.startswith("acemq: the broker address must start with")


@pytest.mark.parametrize("arguments", [["dance"], []])
def test_no_command_or_an_unknown_one_exits_2_and_says_which_there_are(
    arguments: list[str],
) -> None:
    ended = run_python(["-m", "acemq_amqp", *arguments], surroundings(None))
    assert ended.returncode == 2
    assert "demo" in ended.stderr
    assert ended.stdout == ""


def test_help_tells_of_the_demo() -> None:
    ended = run_python(["-m", "acemq_amqp", "--help"], surroundings(None))
    assert ended.returncode == 0
    assert "demo" in ended.stdout


# ------------------------------------------------------------ where something is wrong


@pytest.fixture
def broker_name() -> Iterator[str]:
    yield "demo-under-test"
    forget_memory_broker("demo-under-test")


def test_a_handler_that_fails_less_often_than_expected_exits_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broker_name: str
) -> None:
    monkeypatch.setattr(scenario, "FAILS_ONCE", frozenset())
    assert run_demo(f"memory://{broker_name}") == 1
    printed = capsys.readouterr().out
    assert "async: waits held here: 8, and 23 were expected" in printed
    assert printed.splitlines()[-1].startswith("FAIL: 4 of the counts")


def test_a_pattern_that_comes_to_something_else_exits_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broker_name: str
) -> None:
    monkeypatch.setattr(pattern_scenario, "THRESHOLD", 10)
    assert run_demo(f"memory://{broker_name}") == 1
    printed = capsys.readouterr().out
    assert "blocking: documents put aside: 20, and 10 were expected" in printed
    assert printed.splitlines()[-1].startswith("FAIL: 2 of the counts")


def test_orders_that_overtake_others_of_their_customer_are_counted() -> None:
    told = [("a", 1), ("b", 5), ("a", 3), ("b", 2), ("a", 2), ("a", 4)]
    assert out_of_order({"customer": who, "order": number} for who, number in told) == 2


def test_a_publish_that_is_refused_exits_1_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broker_name: str
) -> None:
    async def refused(*_: object) -> None:
        raise PublishRefused("acemq: refused by the test")

    monkeypatch.setattr(async_part, "_publish", refused)
    assert run_demo(f"memory://{broker_name}") == 1
    assert "acemq: refused by the test" in capsys.readouterr().err
    assert memory_broker(broker_name).queues() == ()


def test_each_wrong_count_has_a_sentence_of_its_own() -> None:
    right = tuple(wanted.count for wanted in EXPECTED)
    wrong = tuple(count + 1 for count in right)
    assert wrong_counts(Findings("async", right, (), (), 1.0)) == ()
    assert len(wrong_counts(Findings("async", wrong, (), (), 1.0))) == len(EXPECTED)
