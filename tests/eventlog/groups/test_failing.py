"""What becomes of messages that cannot be handled: tried again, passed, kept with their reason."""

from __future__ import annotations

from typing import Any

import pytest

from acemq_amqp import in_progress, park, reject, retry
from acemq_amqp.codecs.bytes import BytesCodec
from acemq_amqp.eventlog import GivenUp, Lag, LogMessage, LogQueue
from tests.eventlog.groups.scene import Scene, everywhere, has, in_memory, on_servers

QUICKLY = {"retry_limit": 2, "retry_delay": 0.01}


def whole(queue: LogQueue) -> LogQueue:
    return queue


def lane(queue: LogQueue) -> LogQueue:
    return queue.partition("Default")


both_readers = pytest.mark.parametrize("reader", [whole, lane], ids=["whole", "lane"])


class Failing:
    """Fails on one payload, and notes every attempt."""

    def __init__(self, bad: object, answer: Any = None) -> None:
        self.bad = bad
        self.answer = answer
        self.tried: list[tuple[Any, int]] = []

    def __call__(self, message: LogMessage) -> Any:
        self.tried.append((message.data, message.attempt))
        if message.data != self.bad:
            return None
        if self.answer is not None:
            return self.answer
        raise ValueError("this one is bad")

    @property
    def payloads(self) -> list[Any]:
        return [payload for payload, _ in self.tried]


@both_readers
@everywhere
async def test_one_that_fails_too_often_is_a_dead_letter_with_its_reason(
    scene: Scene, reader: Any
) -> None:
    queue = reader(await scene.queue(count=4)).config(QUICKLY)
    handler = Failing(2)
    await queue.limit(4).consume(handler)
    assert handler.tried == [(0, 1), (1, 1), (2, 1), (2, 2), (2, 3), (3, 1)]
    body, headers = await scene.dead_letter()
    assert body == b"2"
    assert headers["x-acemq-error"] == "attempts exhausted after 3: ValueError: this one is bad"
    assert (headers["x-acemq-attempt"], headers["acemq-log-offset"]) == (3, 3)
    assert headers["acemq-log-lane"] == "Default" and "x-stream-offset" not in headers
    assert await queue.lag() == Lag(0)


@both_readers
@on_servers
async def test_answers_mean_what_they_mean_elsewhere(scene: Scene, reader: Any) -> None:
    answers = [(reject("no"), "rejected"), (park("look"), "parked"), (7, "no answer")]
    for number, (answer, words) in enumerate(answers):
        queue = reader(await scene.queue(f"g{number}", count=0 if number else 2)).config(QUICKLY)
        handler = Failing(0, answer)
        await queue.limit(2).consume(handler)
        assert handler.payloads == [0, 1]
        body, headers = await scene.dead_letter()
        assert body == b"0" and words in headers["x-acemq-error"]


@both_readers
@in_memory
async def test_a_message_in_progress_elsewhere_comes_again_and_counts_nothing(
    scene: Scene, reader: Any
) -> None:
    queue = reader(await scene.queue(count=2)).config({**QUICKLY, "retry_limit": 0})
    seen: list[Any] = []

    def handle(message: LogMessage) -> Any:
        seen.append(message.data)
        return in_progress(0.01) if len(seen) < 3 else None

    await queue.limit(2).consume(handle)
    assert seen == [0, 0, 0, 1]


@both_readers
@on_servers
async def test_a_list_that_fails_comes_one_by_one(scene: Scene, reader: Any) -> None:
    client = await scene.open()
    await client.queue(scene.log).push([{"data": n} for n in range(4)])
    queue = client.queue(scene.log).group("g").subscription_mode("all").batch(10)
    queue = reader(queue).config(QUICKLY).limit(4)
    handled: list[Any] = []

    def handle(messages: list[LogMessage]) -> None:
        if any(message.data == 1 for message in messages):
            raise ValueError("one is bad")
        handled.extend(message.data for message in messages)

    await queue.consume(handle)
    assert handled == [0, 2, 3]
    body, _ = await scene.dead_letter()
    assert body == b"1"
    assert await queue.lag() == Lag(0)


@both_readers
@on_servers
async def test_a_body_that_cannot_be_read_is_a_dead_letter(scene: Scene, reader: Any) -> None:
    queue = reader(await scene.queue(count=1)).config(QUICKLY)
    await (await scene.broker()).publisher("", scene.log, codec=BytesCodec()).send(b"{")
    await scene.client_of(queue).queue(scene.log).push({"data": 1})
    handler = Failing(None)
    await queue.limit(3).consume(handler)
    assert handler.payloads == [0, 1]
    body, headers = await scene.dead_letter()
    assert body == b"{" and "could not be decoded" in headers["x-acemq-error"]


@both_readers
@in_memory
async def test_without_dead_letters_reading_ends_before_the_message(
    scene: Scene, reader: Any
) -> None:
    queue = reader(await scene.queue(count=3)).config({**QUICKLY, "dead_letters": False})
    for _ in range(2):  # and again when it is begun again
        with pytest.raises(GivenUp, match="this one is bad"):
            await queue.consume(Failing(1))
        assert await queue.lag() == Lag(2)
    await queue.seek({"offset": 3})
    handler = Failing(1)
    await queue.limit(1).consume(handler)
    assert handler.payloads == [2]
    assert not await (await scene.broker()).queue_exists(f"{scene.log}.dlq")


@both_readers
@on_servers
async def test_a_stop_ends_a_wait_for_the_next_attempt_and_attempts_go_on(
    scene: Scene, reader: Any
) -> None:
    queue = reader(await scene.queue(count=3)).config({"retry_limit": 3, "retry_delay": 600})
    first = Failing(1, retry("later"))
    running = await queue.start(first)
    await has(first.tried, 2)
    await running.stop()
    assert first.tried == [(0, 1), (1, 1)]
    assert await queue.lag() == Lag(2)
    second = Failing(None)
    await queue.limit(2).consume(second)
    assert second.payloads == [1, 2] and second.tried[0][1] == 2


@on_servers
async def test_a_seek_ends_a_wait_for_the_next_attempt(scene: Scene) -> None:
    queue = (await scene.queue(count=3)).config({"retry_delay": 600})
    handler = Failing(1)
    running = await queue.start(handler)
    await has(handler.tried, 2)
    handler.bad = None
    await scene.reads(await scene.open()).seek({"to": "first"})
    await has(handler.tried, 5)
    await running.stop()
    assert handler.payloads == [0, 1, 0, 1, 2]


@both_readers
@on_servers
async def test_closed_windows_are_handled_once_by_a_group(scene: Scene, reader: Any) -> None:
    client = await scene.open()
    await client.queue(scene.log).create()
    broker = (await scene.broker()).publisher("", scene.log)

    async def put_out(*ids: str) -> None:
        for each in ids:
            await broker.send(each, headers={"acemq-log-window-id": each})

    await put_out("w1", "w1", "w2", "w3")
    queue = reader(scene.reads(client))
    seen: list[Any] = []
    await queue.limit(3).consume(scene.noting(seen))
    await put_out("w2", "w4")
    await queue.limit(1).consume(scene.noting(seen))
    assert seen == ["w1", "w2", "w3", "w4"]
    assert await queue.lag() == Lag(0)
    await queue.seek({"to": "first"})  # is meant to give them again
    await queue.limit(4).consume(scene.noting(seen))
    assert seen[4:] == seen[:4]


@both_readers
@on_servers
async def test_a_closed_window_that_comes_again_at_the_end_is_not_left_behind(
    scene: Scene, reader: Any
) -> None:
    client = await scene.open()
    await client.queue(scene.log).create()
    broker = (await scene.broker()).publisher("", scene.log)
    for each in ("w1", "w2", "w2", "w1"):  # a relay was killed before it could mark them
        await broker.send(each, headers={"acemq-log-window-id": each})
    seen: list[Any] = []
    await reader(scene.reads(client)).idle_millis(1).consume(scene.noting(seen))
    assert seen == ["w1", "w2"]
    assert await scene.reads(client).lag() == Lag(0)
