"""Replay: what comes back, how, and that nothing is lost whatever happens on the way."""

from __future__ import annotations

import re
from inspect import signature
from typing import Any

import pytest

from acemq_amqp import (
    ConfigurationError,
    Message,
    NotFound,
    PublishRefused,
    Topology,
    patterns,
    reject,
)
from acemq_amqp.blocking import patterns as blocking_patterns
from acemq_amqp.patterns import ReplayResult, ReplayStopped
from tests.contract.api import Api, arrived, holds
from tests.patterns.replays import bodies_in, browsed, dead_letters, publish, replayed

FIVE = [b"1", b"2", b"3", b"4", b"5"]


def odd(message: Message) -> bool:
    return int(message.payload) % 2 == 1


def numbered(most: int) -> Any:
    """Fails at the message after so many."""

    def only(message: Message) -> bool:
        if int(message.payload) > most:
            raise ValueError("told to")
        return True

    return only


async def test_a_dead_letter_comes_back_whole_and_begins_anew(api: Api) -> None:
    mq = await api.connect()
    queue = await dead_letters(
        api, mq, [b"\x00 {"], content_type="x/y", content_encoding="gzip", app_id="erp", priority=3
    )
    result = await replayed(api, mq, f"{queue}.dlq")
    assert result == ReplayResult(f"{queue}.dlq", replayed=1)
    back = await arrived(mq, queue)
    assert back.body == b"\x00 {"
    told = dict(back.headers)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z", told.pop("acemq-replayed-at"))
    assert told.pop("acemq-replayed-from") == f"{queue}.dlq"
    assert told.pop("acemq-replay-count") == 1
    assert told["x-acemq-id"] == "m-1" and told["tenant"] == "north"
    assert told["x-acemq-attempt"] == 1 and "x-acemq-error" not in told
    assert (back.message().exchange, back.message().routing_key) == ("shop", "order.placed")
    properties = back.properties
    kept = ("content_type", "content_encoding", "app_id", "priority", "delivery_mode")
    assert [getattr(properties, name) for name in kept] == ["x/y", "gzip", "erp", 3, 2]
    await holds(mq, f"{queue}.dlq", 0)


async def test_what_would_hurt_is_taken_off_and_noted(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq, dead_letter=True)
    headers = {"CC": ["elsewhere"], "x-delivery-count": 19, "x-acemq-deliveries": 10}
    await publish(api, f"{queue}.parked", b"1", headers, expiration="99000", message_id="m")
    await holds(mq, f"{queue}.parked", 1)
    await replayed(api, mq, f"{queue}.parked")
    back = await arrived(mq, queue)
    assert back.properties.expiration is None
    assert (back.headers["x-acemq-expiration"], back.headers["x-acemq-id"]) == ("99000", "m")
    assert not {"CC", "x-acemq-deliveries"} & set(back.headers)
    assert back.headers.get("x-delivery-count", 0) == 0


async def test_parked_messages_go_back_too_and_are_counted(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq, dead_letter=True)
    await publish(api, f"{queue}.parked", b"1", {"acemq-replay-count": 4})
    await holds(mq, f"{queue}.parked", 1)
    assert (await replayed(api, mq, f"{queue}.parked")).replayed == 1
    assert (await arrived(mq, queue)).headers["acemq-replay-count"] == 5


@pytest.mark.parametrize(
    ("before", "after"),
    [("4", 5), (b"4", 5), (True, 1), (-7, 1), ("many", 1), (2**63 - 1, 2**63 - 1)],
)
async def test_a_count_that_anybody_wrote_stops_no_replay(
    api: Api, before: Any, after: int
) -> None:
    mq = await api.connect()
    queue = await api.queue(mq, dead_letter=True)
    await publish(api, f"{queue}.dlq", b"1", {"acemq-replay-count": before})
    await holds(mq, f"{queue}.dlq", 1)
    assert (await replayed(api, mq, f"{queue}.dlq")).replayed == 1
    assert (await arrived(mq, queue)).headers["acemq-replay-count"] == after


async def test_without_a_restart_attempt_and_error_stay(api: Api) -> None:
    mq = await api.connect()
    queue = await dead_letters(api, mq, [b"1"])
    await replayed(api, mq, f"{queue}.dlq", restart=False)
    told = (await arrived(mq, queue)).headers
    assert told["x-acemq-attempt"] == 3
    assert told["x-acemq-error"].startswith("exhausted")


async def test_a_limit_takes_the_oldest_and_leaves_the_others(api: Api) -> None:
    mq = await api.connect()
    queue = await dead_letters(api, mq, FIVE)
    result = await replayed(api, mq, f"{queue}.dlq", limit=2)
    assert (result.replayed, result.stopped) == (2, "limit")
    assert await bodies_in(mq, queue) == FIVE[:2]
    assert await bodies_in(mq, f"{queue}.dlq") == FIVE[2:]


async def test_a_filter_passes_over_and_leaves_in_place(api: Api) -> None:
    mq = await api.connect()
    queue = await dead_letters(api, mq, FIVE)
    result = await replayed(api, mq, f"{queue}.dlq", only=odd)
    assert (result.replayed, result.passed_over, result.stopped) == (3, 2, "")
    assert await bodies_in(mq, queue) == [b"1", b"3", b"5"]
    await holds(mq, f"{queue}.dlq", 2)
    assert await bodies_in(mq, f"{queue}.dlq") == [b"2", b"4"]


@pytest.mark.parametrize("only", [None, odd])
async def test_a_dry_run_counts_and_changes_nothing(api: Api, only: Any) -> None:
    mq = await api.connect()
    queue = await dead_letters(api, mq, FIVE)
    result = await replayed(api, mq, f"{queue}.dlq", only=only, dry_run=True)
    assert result.dry_run and result.replayed == (5 if only is None else 3)
    await holds(mq, f"{queue}.dlq", 5)
    assert await mq.message_count(queue) == 0
    left = await mq.pull(f"{queue}.dlq")
    assert left is not None and left.redelivered == (only is not None)
    assert left.headers["x-acemq-attempt"] == 3
    await left.requeue()
    assert await bodies_in(mq, f"{queue}.dlq") == FIVE


async def test_a_quorum_queue_is_replayed_and_never_looked_into(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    await mq.declare(Topology().queue(f"{queue}.dlq", quorum=True))
    await mq.publisher(routing_key=f"{queue}.dlq").send(1)
    await holds(mq, f"{queue}.dlq", 1)
    assert (await replayed(api, mq, f"{queue}.dlq", dry_run=True)).replayed == 1
    for options in ({"only": odd}, {"only": odd, "dry_run": True}):
        with pytest.raises(ConfigurationError, match="quorum queue, which counts every look"):
            await replayed(api, mq, f"{queue}.dlq", **options)
    with pytest.raises(ConfigurationError, match="quorum queue, which counts every look"):
        await browsed(api, mq, f"{queue}.dlq")
    assert (await replayed(api, mq, f"{queue}.dlq")).replayed == 1
    assert not (await arrived(mq, queue)).redelivered


async def test_browsing_shows_all_and_changes_no_place(api: Api) -> None:
    mq = await api.connect()
    queue = await dead_letters(api, mq, FIVE)
    found = await browsed(api, mq, f"{queue}.dlq")
    assert [each.payload for each in found] == FIVE
    assert found[0].envelope.error.startswith("exhausted 3 attempts")
    assert len(await browsed(api, mq, f"{queue}.dlq", limit=2)) == 2
    await holds(mq, f"{queue}.dlq", 5)
    assert await bodies_in(mq, f"{queue}.dlq") == FIVE


async def test_to_an_exchange_each_has_the_key_it_first_came_with(api: Api) -> None:
    mq = await api.connect()
    shop = api.name("shop")
    queue = await dead_letters(api, mq, [b"1"])
    await mq.declare(
        Topology().exchange(shop).queue(queue, dead_letter=True).binding(queue, shop, "order.*")
    )
    await replayed(api, mq, f"{queue}.dlq", exchange=shop)
    assert (await arrived(mq, queue)).routing_key == "order.placed"


async def test_what_the_broker_dead_lettered_knows_where_it_came_from(api: Api) -> None:
    mq = await api.connect()
    shop, queue = api.name("shop"), api.name("orders")
    topology = Topology().exchange(shop).queue(queue, dead_letter=True, args={"x-message-ttl": 1})
    await mq.declare(topology.binding(queue, shop, "order.*"))
    await mq.publisher(shop).send(1, routing_key="order.placed")
    await holds(mq, f"{queue}.dlq", 1)
    other = await api.queue(mq, "other")
    await mq.declare(Topology().exchange(shop).binding(other, shop, "order.*"))
    await mq.delete_queue(queue)
    await replayed(api, mq, f"{queue}.dlq", exchange=shop)
    back = await arrived(mq, other)
    assert back.routing_key == "order.placed"
    assert (back.message().exchange, back.message().routing_key) == (shop, "order.placed")


async def test_where_there_is_no_place_to_go_nothing_is_moved(api: Api) -> None:
    mq = await api.connect()
    queue = await dead_letters(api, mq, FIVE)
    await mq.delete_queue(queue)
    with pytest.raises(NotFound, match=re.escape(f"there is no queue '{queue}'")):
        await replayed(api, mq, f"{queue}.dlq")
    shop = api.name("shop")
    await mq.declare(Topology().exchange(shop))
    with pytest.raises(ReplayStopped) as told:
        await replayed(api, mq, f"{queue}.dlq", exchange=shop)
    assert isinstance(told.value.__cause__, PublishRefused)
    assert told.value.result.replayed == 0
    await holds(mq, f"{queue}.dlq", 5)
    assert await bodies_in(mq, f"{queue}.dlq") == FIVE


async def test_what_a_full_queue_refuses_stays_a_dead_letter(api: Api) -> None:
    mq = await api.connect()
    queue = await dead_letters(api, mq, FIVE)
    small = api.name("small")
    args = {"x-max-length": 2, "x-overflow": "reject-publish"}
    await mq.declare(Topology().queue(small, quorum=False, args=args))
    with pytest.raises(ReplayStopped, match="stopped after 2 messages") as told:
        await replayed(api, mq, f"{queue}.dlq", routing_key=small)
    assert told.value.result.replayed == 2
    await holds(mq, f"{queue}.dlq", 3)
    assert await bodies_in(mq, small) == FIVE[:2]
    assert await bodies_in(mq, f"{queue}.dlq") == FIVE[2:]


async def test_a_filter_that_fails_loses_nothing(api: Api) -> None:
    mq = await api.connect()
    queue = await dead_letters(api, mq, FIVE)
    with pytest.raises(ReplayStopped, match="told to") as told:
        await replayed(api, mq, f"{queue}.dlq", only=numbered(3))
    assert isinstance(told.value.__cause__, ValueError)
    await holds(mq, f"{queue}.dlq", 5)
    assert await bodies_in(mq, f"{queue}.dlq") == FIVE


async def test_what_fails_again_at_once_is_not_taken_twice(api: Api) -> None:
    mq = await api.connect()
    queue = await dead_letters(api, mq, FIVE)
    handled = []

    def handle(message: Message) -> Any:
        handled.append(message.envelope.id)
        return reject("as ever")

    async with await mq.consume(queue, handle):
        # one at a time, so that each has come back before the next is taken
        result = await replayed(api, mq, f"{queue}.dlq", rate=1e6)
        await holds(mq, f"{queue}.dlq", 5)
    assert (result.replayed, len(handled)) == (5, 5)


async def test_a_rate_holds_back_and_a_deadline_ends(api: Api) -> None:
    mq = await api.connect()
    queue = await dead_letters(api, mq, FIVE)
    result = await replayed(api, mq, f"{queue}.dlq", deadline=0)
    assert (result.replayed, result.stopped) == (0, "deadline")
    result = await replayed(api, mq, f"{queue}.dlq", rate=0.001, deadline=60)
    assert (result.replayed, result.stopped) == (1, "deadline")
    assert await bodies_in(mq, f"{queue}.dlq") == FIVE[1:]


@pytest.mark.parametrize(
    ("queue", "options", "said"),
    [
        ("orders", {}, "no dead-letter queue"),
        (".dlq", {}, "no dead-letter queue"),
        ("q.dlq", {"routing_key": "q.dlq"}, "to itself"),
        ("q.dlq", {"limit": -1}, "limit is a whole number"),
        ("q.dlq", {"rate": 0}, "rate is messages a second"),
        ("q.dlq", {"deadline": -1}, "deadline is negative"),
        ("q.dlq", {"only": "odd"}, "has to be callable"),
        ("q.dlq", {"dry_run": "no"}, "dry_run"),
        ("q.dlq", {"restart": 1}, "restart"),
    ],
)
async def test_what_cannot_be_is_refused(api: Api, queue: str, options: Any, said: str) -> None:
    mq = await api.connect()
    with pytest.raises(ConfigurationError, match=said):
        await replayed(api, mq, queue, **options)


async def test_a_queue_that_is_not_there_is_told(api: Api) -> None:
    mq = await api.connect()
    missing = f"{api.name('missing')}.dlq"
    with pytest.raises(NotFound):
        await replayed(api, mq, missing)
    with pytest.raises(NotFound):
        await browsed(api, mq, missing)


@pytest.mark.parametrize("name", ["browse", "replay"])
def test_both_flavours_take_and_promise_the_same(name: str) -> None:
    ours, theirs = getattr(patterns, name), getattr(blocking_patterns, name)
    told = [
        [(each.name, each.kind, each.default) for each in signature(function).parameters.values()]
        for function in (ours, theirs)
    ]
    assert told[0] == told[1]
    assert ours.__doc__ == theirs.__doc__
