"""What kind of queue a queue is: from the broker's words, and on real queues."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from acemq_amqp import Topology
from acemq_amqp.patterns.queue_kind import QueueKind, kind_of, kind_told_by
from tests.contract.api import Api
from tests.contract.flavours import AsyncFlavour

WORDS = "PRECONDITION_FAILED - inequivalent arg {} for queue 'q' in vhost '/': received {}"


def said(argument: str, current: str) -> str:
    received = f"'classic' but current is {current}"
    return f"acemq: refused (406: {WORDS.format(repr(argument), received)}); declare it"


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        ("", "classic"),
        (said("x-queue-type", "'quorum'"), "quorum"),
        (said("x-queue-type", "the value 'stream' of type 'longstr'"), "stream"),
        (said("auto_delete", "'true'"), "classic"),
        (said("x-new", "the value '[]' of type 'array'"), "unknown"),
        (said("x-dead-letter-exchange", "the value 'much-too-lo"), "unknown"),
        ("acemq: the broker refused declaring queue 'q' (403: ACCESS_REFUSED); check", "unknown"),
    ],
)
def test_the_broker_s_words(problem: str, kind: str) -> None:
    found = kind_told_by(problem, {"x-queue-type": "classic"})
    assert found is not None and found.name == kind


def test_an_argument_is_learned_and_tried_with() -> None:
    learned: dict[str, Any] = {"x-queue-type": "classic"}
    for name, value in {"x-message-ttl": "9000", "x-max-length": "5"}.items():
        text = said(name, f"the value '{value}' of type 'signedint'")
        assert kind_told_by(text, learned) is None
    assert kind_told_by(said("x-queue-type", "none"), learned) is None
    found = kind_told_by("", learned)
    assert found == QueueKind("classic", {"x-message-ttl": 9000, "x-max-length": 5})
    assert not found.keeps_what_is_given_back


# The coroutine is the same in both flavours.
async_only = pytest.mark.parametrize("flavour", [AsyncFlavour()], ids=["async"])


@async_only
@pytest.mark.parametrize(
    ("kind", "lookable", "options"),
    [
        ("classic", True, {"quorum": False}),
        ("classic", True, {"quorum": False, "args": {"x-message-ttl": 90000, "x-expires": 90000}}),
        ("classic", False, {"quorum": False, "args": {"x-max-length": 5}}),
        ("classic", True, {"auto_delete": True}),
        ("unknown", False, {"exclusive": True}),
        ("classic", True, {"quorum": False, "single_active": True, "dead_letter": True}),
        ("quorum", False, {}),
        ("quorum", False, {"dead_letter": True, "args": {"x-max-length": 7}}),
    ],
)
async def test_every_queue_is_told(
    api: Api, kind: str, lookable: bool, options: dict[str, Any]
) -> None:
    mq = await api.connect()
    # short: the broker's words end after 255 bytes, and names are among them
    queue = f"k.{secrets.token_hex(4)}"
    await mq.declare(Topology().queue(queue, **options))
    found = await kind_of(mq, queue)
    assert (found.name, found.keeps_what_is_given_back) == (kind, lookable)


@async_only
async def test_a_stream_is_told(api: Api) -> None:
    mq = await api.connect()
    name = api.name("log")
    await mq.declare(Topology().stream(name))
    assert (await kind_of(mq, name)).name == "stream"
