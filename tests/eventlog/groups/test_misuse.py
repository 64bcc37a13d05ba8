"""What a newcomer gets wrong, and is told."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import acemq_amqp.blocking.eventlog
import acemq_amqp.eventlog
from acemq_amqp.errors import ConfigurationError, NotFound
from acemq_amqp.eventlog import InMemoryLogStore, LogQueue, Stream
from acemq_amqp.eventlog.choices import unknown
from tests.eventlog.groups.scene import Scene, in_memory

FLAVOURS = [acemq_amqp.eventlog, acemq_amqp.blocking.eventlog]


@in_memory
@pytest.mark.parametrize(
    "reads",
    [
        lambda queue: queue.pop(),
        lambda queue: queue.start(print),
        lambda queue: queue.limit(1).consume(print),
        lambda queue: queue.partition("a").start(print),
        lambda queue: queue.lag(),
        lambda queue: queue.seek({"to": "first"}),
    ],
    ids=["pop", "start", "consume", "start a lane", "lag", "seek"],
)
async def test_reading_makes_no_log(scene: Scene, reads: Any) -> None:
    client = await scene.open()
    with pytest.raises(NotFound, match=f"no event log '{scene.log}'"):
        await reads(scene.reads(client))
    broker = await scene.broker()
    assert not await broker.queue_exists(scene.log)
    assert not await broker.queue_exists(f"{scene.log}.dlq")
    await client.queue(scene.log).create()  # it was not taken for looked up
    assert await scene.reads(client).pop() == []


@in_memory
@pytest.mark.parametrize("lane", [None, "a"])
@pytest.mark.parametrize("said", [None, "first", ["back"], 3, {"too": "first"}], ids=repr)
async def test_a_seek_takes_a_dict(scene: Scene, said: Any, lane: str | None) -> None:
    queue = await scene.queue(count=1)
    with pytest.raises(ConfigurationError, match=r"^acemq: a seek"):
        await (queue if lane is None else queue.partition(lane)).seek(said)


@in_memory
@pytest.mark.parametrize("said", ["no", 0, None, 1], ids=repr)
async def test_handled_is_true_or_false(scene: Scene, said: Any) -> None:
    queue = await scene.queue(count=1)
    taken = await queue.pop()
    with pytest.raises(ConfigurationError, match="handled= wants True or False"):
        await scene.client_of(queue).ack(taken, said)
    assert (await queue.lag()).messages == 1


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_an_option_that_there_is_not_is_told_with_the_one_meant(flavour: Any) -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'prefetch'"):
        flavour.EventLog(url="memory://x", store=InMemoryLogStore(), prefetsch=5)
    with pytest.raises(ConfigurationError, match="knows no 'foo'"):
        flavour.EventLog(url="memory://x", store=InMemoryLogStore(), foo=1)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_store_that_an_error_recommends_is_there(flavour: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"acemq_amqp\.eventlog\.InMemoryLogStore"):
        flavour.EventLog(url="memory://x", store=None)
    assert flavour.EventLog(url="memory://x", store=flavour.InMemoryLogStore())


def test_of_many_names_few_are_told() -> None:
    names = [f"Europe/{n:04}" for n in range(600)]
    told = str(unknown("Mars/X", names, "a zone"))
    assert "Europe/0000" in told and len(told) < 300
    assert "and 590 more" in told
    assert "did you mean 'Europe/0001'" in str(unknown("europe/0001", names, "a zone"))


def test_a_zone_that_there_is_not(names: Any) -> None:
    client = acemq_amqp.eventlog.EventLog(url="memory://x", store=InMemoryLogStore())
    with pytest.raises(ConfigurationError) as failure:
        Stream.from_(LogQueue(client._client, "log")).window_cron(cron="0 0 * * *", zone="Mars/X")
    assert len(str(failure.value)) < 400


@in_memory
@pytest.mark.parametrize("lane", [None, "Default"])
async def test_a_batch_that_failed_is_told_in_words(
    scene: Scene, lane: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    client = await scene.open()
    await client.queue(scene.log).push([{"data": 1}, {"data": 2}])

    calls: list[Any] = []

    def handle(messages: list[Any]) -> None:
        calls.append(messages)
        if len(calls) == 1:
            raise ValueError("not two")

    queue = client.queue(scene.log).group("g").subscription_mode("all").batch(2).limit(2)
    with caplog.at_level(logging.WARNING, "acemq_amqp"):
        await (queue if lane is None else queue.partition(lane)).consume(handle)
    (told,) = [each for each in caplog.messages if "one by one" in each]
    assert told.endswith(": ValueError: not two")
