"""The example programs, run against RabbitMQ as their reader would run them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acemq_amqp import blocking
from tests.acceptance.programs import ROOT, catches, run_python, running_python, surroundings
from tests.support.eventually import eventually

pytestmark = pytest.mark.server

_FAR_TOO_LONG = 60

EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
TESTED = (
    "async_service.py",
    "blocking_script.py",
    "codec_swap.py",
    "outbox_orders.py",
    "replay.py",
    "streaming.py",
)


def test_every_example_is_tested_here() -> None:
    assert sorted(TESTED) == EXAMPLES


@contextmanager
def broker_without(url: str, *queues: str) -> Iterator[blocking.Connection]:
    """A look at the broker, which has none of these queues before and after."""
    with blocking.connect(url) as mq:
        for queue in queues:
            mq.delete_queue(queue)
        yield mq
        for queue in queues:
            mq.delete_queue(queue)


def errors_in(mq: blocking.Connection, queue: str) -> list[str]:
    """Why the messages in a queue were set aside."""
    reasons = []
    while (delivery := mq.pull(queue)) is not None:
        reasons.append(str(delivery.headers["x-acemq-error"]))
        delivery.ack()
    return reasons


def test_the_service_works_until_sigterm_and_ends_in_order(amqp_url: str, tmp_path: Path) -> None:
    log = tmp_path / "printed"
    ours = ("shop.orders", "shop.orders.dlq", "shop.orders.parked", "shop.invoices")
    with broker_without(amqp_url, *ours) as mq:
        here = surroundings(amqp_url)
        with running_python(["examples/async_service.py"], here, log) as service:
            eventually(lambda: log.read_text().count("paid at") == 4, "four orders paid")
            eventually(lambda: catches(service.pid, signal.SIGTERM), "run() taking signals")
            service.send_signal(signal.SIGTERM)
            assert service.wait(_FAR_TOO_LONG) == 0

        printed = log.read_text().splitlines()
        assert printed[-1] == "stopped"
        assert sorted(printed[:-1]) == [
            "order 1 paid at attempt 1",
            "order 2 paid at attempt 1",
            "order 3 failed: it is tried again",
            "order 3 paid at attempt 2",
            "order 4 rejected: no address",
            "order 5 paid at attempt 1",
        ]
        assert mq.message_count("shop.orders") == 0
        assert mq.message_count("shop.invoices") == 4
        assert errors_in(mq, "shop.orders.dlq") == ["the handler rejected it: no address"]


def test_the_script_works_its_batch_off_and_ends(amqp_url: str) -> None:
    queue = "photos.to-resize"
    with broker_without(amqp_url, queue, f"{queue}.dlq", f"{queue}.parked") as mq:
        ended = run_python(["examples/blocking_script.py"], surroundings(amqp_url))
        assert (ended.returncode, ended.stderr) == (0, "")
        assert ended.stdout.splitlines() == [
            "100 photos sent, each confirmed by the broker",
            "photo-007.jpg: failed, it is tried again",
            "0 photos left in photos.to-resize",
            "dead letter: the handler rejected it: photo-013.txt is no photo",
        ]
        assert mq.message_count(queue) == 0
        assert mq.message_count(f"{queue}.dlq") == 0


@pytest.mark.parametrize("flavour", ["async", "blocking"])
def test_a_claim_check_is_taken_on_and_given_up_with_nothing_lost(
    amqp_url: str, flavour: str
) -> None:
    queue = "swap.photos"
    with broker_without(amqp_url, queue, f"{queue}.dlq", f"{queue}.parked") as mq:
        ended = run_python(["examples/codec_swap.py", flavour], surroundings(amqp_url))
        assert (ended.returncode, ended.stderr) == (0, "")
        *steps, counted, verdict = ended.stdout.splitlines()
        assert verdict == f"PASS: {flavour}"
        assert counted.endswith(", 0 lost, 0 dead, 0 parked, 0 left in the queue")
        assert len(steps) == 9
        assert mq.message_count(queue) == 0
