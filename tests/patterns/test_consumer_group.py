"""A consumer group: started whole or not at all, scaled while messages go on, closed as one."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, cast

import pytest

from acemq_amqp import (
    BrokerError,
    ConfigurationError,
    Connection,
    Consumer,
    Message,
    NotFound,
    Topology,
    dead_letter_queue,
    fixed_retry,
    reject,
)
from acemq_amqp.ack import AckKind
from acemq_amqp.blocking.patterns import ConsumerGroup as BlockingGroup
from acemq_amqp.patterns import ConsumerGroup
from tests.contract.api import Api, arrived, holds
from tests.contract.seen import Seen, by_payload
from tests.contract.waiting import until
from tests.patterns.groups import start_group


async def send(mq: Connection, queue: str, *payloads: Any) -> None:
    await mq.publisher("", queue).send_many(payloads)


def tags(group: ConsumerGroup) -> list[str]:
    return [counters.tag for counters in group.counters]


# ------------------------------------------------------------ starting


async def test_every_message_is_handled_once_and_several_at_once(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    gate = api.gate()
    seen = Seen(gate.hold)
    group = await start_group(api, mq, queue, 3, seen, prefetch=1)
    await send(mq, queue, *range(9))
    await gate.holds(3)
    assert (group.queue, group.size, group.closed) == (queue, 3, False)
    gate.open()
    await seen.count(9)
    assert sorted(seen.payloads) == list(range(9))
    assert gate.most == 3


async def test_consumers_are_numbered_from_1(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    plain = await start_group(api, mq, queue, 2, Seen())
    named = await start_group(api, mq, queue, 2, Seen(), tag="billing")
    assert tags(plain) == [f"acemq-{queue}-1", f"acemq-{queue}-2"]
    assert tags(named) == ["billing-1", "billing-2"]


async def test_options_reach_every_consumer(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    answer = by_payload(bad=lambda message: reject("no"))
    group = await start_group(
        api, mq, queue, 2, Seen(answer), retry=fixed_retry(2, 0.01), prefetch=4, concurrency=4
    )
    assert group.prefetch == 4
    await send(mq, queue, "bad")
    dead = await arrived(mq, dead_letter_queue(queue))
    assert dead.headers["x-acemq-error"] == "the handler rejected it: no"


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "2"])
async def test_a_size_that_is_none_is_refused(api: Api, size: Any) -> None:
    mq = await api.connect()
    with pytest.raises(ValueError, match=r"^acemq: the size of a consumer group is a whole number"):
        await start_group(api, mq, await api.queue(mq), size, Seen())
    assert mq.consumers == ()


async def test_where_one_cannot_start_none_is_left(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    with pytest.raises(ConfigurationError, match="a prefetch of at least 5"):
        await start_group(api, mq, queue, 3, Seen(), prefetch=2, concurrency=5)
    with pytest.raises(NotFound):
        await start_group(api, mq, api.name("nowhere"), 3, Seen())
    assert mq.consumers == ()


def refusing(consume: Any, given: int) -> Any:
    """A connection's ``consume`` whose broker refuses, once it has given so many."""
    left = iter(range(given))

    async def once(*args: Any, **options: Any) -> Consumer:
        if next(left, None) is None:
            raise BrokerError("acemq: the broker refuses any more")
        return cast(Consumer, await consume(*args, **options))

    return once


async def test_where_the_third_is_refused_the_first_two_are_closed(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    if api.flavour.name == "blocking":
        pytest.skip("the blocking class drives this very coroutine")
    mq = await api.connect()
    queue = await api.queue(mq)
    monkeypatch.setattr(mq, "consume", refusing(mq.consume, 2))
    with pytest.raises(BrokerError, match="refuses any more"):
        await ConsumerGroup.start(mq, queue, 3, Seen())
    assert mq.consumers == ()


# ------------------------------------------------------------ scaling


async def test_scaling_up_and_down_loses_nothing(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    seen = Seen()
    group = await start_group(api, mq, queue, 1, seen, prefetch=5)
    for number, size in enumerate((4, 2, 6, 1, 3)):
        await send(mq, queue, *range(number * 50, number * 50 + 50))
        await group.scale_to(size)
        assert group.size == len(mq.consumers) == size
        assert tags(group) == [f"acemq-{queue}-{each}" for each in range(1, size + 1)]
    await until(lambda: set(seen.payloads) == set(range(250)), "250 messages handled")


async def test_a_consumer_that_is_scaled_away_finishes_what_runs(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    gate = api.gate()
    seen = Seen(gate.hold)
    group = await start_group(api, mq, queue, 2, seen, prefetch=1)
    await send(mq, queue, "one", "two")
    await gate.holds(2)
    scaling = asyncio.ensure_future(group.scale_to(1))
    await until(lambda: group.size == 1, "the group shrunk")
    assert not scaling.done()
    gate.open()
    await scaling
    assert sorted(seen.payloads) == ["one", "two"]
    await holds(mq, queue, 0)


async def test_the_prefetch_changes_while_messages_go_on(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    seen = Seen()
    group = await start_group(api, mq, queue, 2, seen, prefetch=1)
    await send(mq, queue, *range(50))
    await group.set_prefetch(7)
    assert (group.prefetch, group.size, len(mq.consumers)) == (7, 2, 2)
    await send(mq, queue, *range(50, 100))
    await until(lambda: set(seen.payloads) == set(range(100)), "100 messages handled")
    with pytest.raises(ConfigurationError, match="prefetch is a whole number"):
        await group.set_prefetch(0)
    assert group.prefetch == 7


async def test_a_prefetch_below_the_concurrency_leaves_the_group_as_it_was(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    seen = Seen()
    group = await start_group(api, mq, queue, 2, seen, concurrency=3)
    with pytest.raises(ConfigurationError, match="needs a prefetch of at least 3"):
        await group.set_prefetch(2)
    assert group.prefetch is None
    await send(mq, queue, "still here")
    assert (await seen.first()).payload == "still here"


async def test_two_who_scale_at_once_take_turns(api: Api) -> None:
    mq = await api.connect()
    group = await start_group(api, mq, await api.queue(mq), 1, Seen())
    await asyncio.gather(*(group.scale_to(size) for size in (5, 2, 4)))
    assert group.size == len(mq.consumers)
    assert len(set(tags(group))) == group.size


# ------------------------------------------------------------ counters


async def test_counters_tell_who_answered_what(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)

    def failing(message: Message) -> None:
        raise ConnectionError("no answer")

    seen = Seen(by_payload(bad=lambda message: reject(), broken=failing))
    group = await start_group(api, mq, queue, 2, seen)
    await send(mq, queue, "good", "bad", "broken", "good")
    await until(lambda: sum(each.handled for each in group.counters) == 4, "4 counted")
    answers = [each.answers for each in group.counters]
    total = {kind: sum(each.get(kind, 0) for each in answers) for kind in AckKind}
    assert {kind: count for kind, count in total.items() if count} == {
        AckKind.ACCEPT: 2,
        AckKind.REJECT: 1,
        AckKind.RETRY: 1,
    }
    assert [each.number for each in group.counters] == [1, 2]


async def test_a_handler_of_the_flavour_is_counted(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    other = await api.queue(mq, "other")

    async def forward(message: Message) -> None:
        await mq.publisher("", other).send(message.payload)

    group = await start_group(api, mq, queue, 1, api.handler(forward))
    await send(mq, queue, "content")
    await arrived(mq, other)
    await until(lambda: group.counters[0].answers == {AckKind.ACCEPT: 1}, "one counted")


async def test_a_number_that_is_taken_again_goes_on_with_its_counters(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    group = await start_group(api, mq, queue, 1, Seen())
    await send(mq, queue, "one")
    await until(lambda: group.counters[0].handled == 1, "one counted")
    await group.set_prefetch(3)
    assert group.counters[0].handled == 1


# ------------------------------------------------------------ closing


async def test_closing_waits_for_handlers_and_gives_back_the_rest(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    gate = api.gate()
    seen = Seen(gate.hold)
    group = await start_group(api, mq, queue, 2, seen, prefetch=1)
    await send(mq, queue, *range(4))
    await gate.holds(2)
    consumers = mq.consumers
    closing = asyncio.ensure_future(group.close())
    await until(lambda: not any(each.running for each in consumers), "the close begun")
    gate.open()
    assert await closing is True
    assert (group.size, group.counters, mq.consumers) == (0, (), ())
    assert len(seen.payloads) == 2
    await holds(mq, queue, 2)
    assert await group.close() is True
    for again in (group.scale_to(2), group.set_prefetch(2)):
        with pytest.raises(ConfigurationError, match="is closed"):
            await again


async def test_leaving_the_block_closes_it(api: Api) -> None:
    mq = await api.connect()
    async with await start_group(api, mq, await api.queue(mq), 3, Seen()) as group:
        assert len(mq.consumers) == 3
    assert group.closed
    assert len(mq.consumers) == 0


async def test_closing_from_inside_a_handler_starts_the_stop(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    ended: list[bool] = []

    async def handle(message: Message) -> None:
        ended.append(await group.close())

    group = await start_group(api, mq, queue, 3, api.handler(handle))
    await send(mq, queue, "stop")
    await until(lambda: mq.consumers == (), "all consumers closed")
    assert ended == [False]
    await holds(mq, queue, 0)


async def test_scaling_down_from_inside_a_handler_does_not_wait_for_itself(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    scaled: list[int] = []

    async def handle(message: Message) -> None:
        await group.scale_to(1)
        scaled.append(group.size)

    group = await start_group(api, mq, queue, 3, api.handler(handle), prefetch=1)
    await send(mq, queue, "one", "two", "three")
    await until(lambda: len(scaled) == 3, "three handled")
    await until(lambda: len(mq.consumers) == 1, "one consumer left")


async def test_a_close_while_it_is_scaled_leaves_nothing(api: Api) -> None:
    mq = await api.connect()
    group = await start_group(api, mq, await api.queue(mq), 1, Seen())
    scaling = asyncio.ensure_future(group.scale_to(20))
    await until(lambda: len(mq.consumers) > 2, "the scaling begun")
    await group.close()
    (scaled,) = await asyncio.gather(scaling, return_exceptions=True)
    assert scaled is None or "is closed" in str(scaled)  # it may have been through already
    assert mq.consumers == ()


class Closing:
    """As much of a consumer as closing needs."""

    handling_here = False

    def __init__(self, failure: Exception | None = None) -> None:
        self.closed = 0
        self._failure = failure

    async def close(self) -> bool:
        self.closed += 1
        if self._failure is not None:
            raise self._failure
        return True


async def test_all_are_closed_even_where_one_fails_and_the_first_failure_is_raised() -> None:
    first, second = BrokerError("acemq: first"), BrokerError("acemq: second")
    consumers = [Closing(), Closing(first), Closing(second), Closing()]
    group = ConsumerGroup("orders", cast(list[Consumer], consumers))
    assert group.size == 4
    with pytest.raises(BrokerError) as raised:
        await group.close()
    assert raised.value is first
    assert [each.closed for each in consumers] == [1, 1, 1, 1]
    assert group.size == 0


async def test_a_failing_close_in_a_started_group_closes_the_others(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    mq = await api.connect()
    group = await start_group(api, mq, await api.queue(mq), 3, Seen())
    inner = getattr(group, "_inner", group)
    broken = getattr(inner, "_group", inner)._members[0].consumer
    close, failure = broken.close, BrokerError("acemq: cannot close")

    async def failing(*_: Any) -> bool:
        await close()
        raise failure

    monkeypatch.setattr(broken, "close", failing)
    with pytest.raises(BrokerError, match="cannot close"):
        await group.close()
    assert mq.consumers == ()


# ------------------------------------------------------------ the flavours


def test_the_blocking_group_is_the_twin_of_the_async_one() -> None:
    def members(kind: type) -> dict[str, Any]:
        return {name: value for name, value in vars(kind).items() if not name.startswith("_")}

    ours, theirs = members(ConsumerGroup), members(BlockingGroup)
    assert ours.keys() == theirs.keys()
    for name in ("start", "scale_to", "set_prefetch", "close"):
        mine, its = (
            inspect.signature(getattr(kind, name)) for kind in (ConsumerGroup, BlockingGroup)
        )
        assert [(each.name, each.default) for each in mine.parameters.values()] == [
            (each.name, each.default) for each in its.parameters.values()
        ]
        assert inspect.getdoc(getattr(ConsumerGroup, name)) == inspect.getdoc(
            getattr(BlockingGroup, name)
        )


async def test_it_comes_back_with_its_connection(api: Api) -> None:
    mq = await api.connect()
    queue = api.name("gone")
    await mq.declare(Topology().queue(queue))
    seen = Seen()
    group = await start_group(api, mq, queue, 2, seen)
    await mq.delete_queue(queue)
    await until(lambda: not any(each.running for each in group.consumers), "both cancelled")
    await mq.declare(Topology().queue(queue))
    await until(lambda: all(each.running for each in group.consumers), "both consuming again")
    await send(mq, queue, "again")
    assert (await seen.first()).payload == "again"
