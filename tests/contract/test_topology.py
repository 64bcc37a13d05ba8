"""What is declared stands as it was asked for, and what differs is told in its own words."""

from __future__ import annotations

import asyncio

import pytest

from acemq_amqp import (
    BrokerError,
    ConfigurationError,
    DeclarationMismatch,
    Topology,
    fixed_retry,
)
from acemq_amqp.fieldtable import HeaderTable
from tests.contract.api import Api, arrived, holds
from tests.contract.seen import Seen, by_payload
from tests.contract.waiting import until


async def test_everything_declared_stands(api: Api) -> None:
    mq = await api.connect()
    queue, exchange = api.name("orders"), api.name("events")
    topology = (
        Topology()
        .exchange(exchange)
        .queue(queue, dead_letter=True, retry=fixed_retry(2, 60).wait_in_broker_from(60))
    )
    await mq.declare(topology.binding(queue, exchange, "order.*"))
    for name in (queue, f"{queue}.dlq", f"{queue}.parked", f"{queue}.retry.1m"):
        assert await mq.queue_exists(name), name
    await mq.publisher(exchange, "order.placed").send(1)
    assert (await arrived(mq, queue)).routing_key == "order.placed"
    assert not (await mq.publisher(exchange, "other.thing").send(1)).routed


async def test_the_plan_is_what_is_declared_and_declares_nothing(api: Api) -> None:
    mq = await api.connect()
    queue = api.name("orders")
    topology = Topology().queue(queue, dead_letter=True)
    assert any(queue in str(step) for step in topology.plan())
    assert not await mq.queue_exists(queue)


async def test_declaring_alike_twice_is_declaring_once(api: Api) -> None:
    mq, other = await api.connect(), await api.connect_other()
    topology = Topology().exchange(api.name("events")).queue(api.name("orders"), dead_letter=True)
    await mq.declare(topology)
    await mq.declare(topology)
    await other.declare(topology)


async def test_a_mismatch_names_the_queue_the_argument_and_both_values(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    queue = await api.queue(mq, args={"x-max-length": 12345})
    with pytest.raises(DeclarationMismatch) as told:
        await other.declare(Topology().queue(queue, args={"x-max-length": 54321}))
    for word in (queue, "x-max-length", "12345", "54321"):
        assert word in str(told.value)
    assert told.value.code == 406
    assert await other.queue_exists(queue)  # the connection goes on


async def test_a_mismatch_of_a_missing_argument_is_told_too(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    queue = await api.queue(mq)
    with pytest.raises(DeclarationMismatch) as told:
        await other.declare(Topology().queue(queue, dead_letter=True))
    assert queue in str(told.value) and "x-dead-letter" in str(told.value)


async def test_a_mismatch_of_an_exchange_names_it(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    exchange = api.name("events")
    await mq.declare(Topology().exchange(exchange, "topic"))
    with pytest.raises(DeclarationMismatch) as told:
        await other.declare(Topology().exchange(exchange, "direct"))
    for word in (exchange, "type", "topic", "direct"):
        assert word in str(told.value)


async def test_one_connection_refuses_to_declare_a_queue_in_two_ways(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    with pytest.raises((ConfigurationError, DeclarationMismatch), match="queue-type"):
        await mq.declare(Topology().queue(queue, quorum=False))


async def test_verify_finds_no_fault_with_what_stands(api: Api) -> None:
    mq = await api.connect()
    topology = Topology().exchange(api.name("events")).queue(api.name("orders"))
    await mq.declare(topology)
    assert await mq.verify(topology) == []


async def test_verify_tells_what_is_missing_and_makes_nothing(api: Api) -> None:
    mq = await api.connect()
    queue, exchange = api.name("orders"), api.name("events")
    found = await mq.verify(Topology().exchange(exchange).queue(queue))
    assert [difference.problem for difference in found] == ["missing", "missing"]
    assert exchange in found[0].subject and queue in found[1].subject
    assert not await mq.queue_exists(queue)
    result = await mq.publisher("", queue, mandatory=False).send(1)
    assert not result.routed


async def test_verify_tells_what_differs_and_goes_on(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    queue, missing = await api.queue(mq, args={"x-max-length": 12345}), api.name("missing")
    wanted = Topology().queue(queue, args={"x-max-length": 54321}).queue(missing)
    differing, absent = await other.verify(wanted)
    assert "12345" in differing.problem and "54321" in differing.problem
    assert (missing in absent.subject, absent.problem) == (True, "missing")


async def test_verify_says_that_bindings_cannot_be_looked_up(api: Api) -> None:
    mq = await api.connect()
    queue, exchange = api.name("orders"), api.name("events")
    topology = Topology().exchange(exchange).queue(queue).binding(queue, exchange, "#")
    await mq.declare(topology)
    (difference,) = await mq.verify(topology)
    assert "not verifiable" in difference.problem


async def test_an_exchange_may_feed_an_exchange(api: Api) -> None:
    mq = await api.connect()
    queue, outer, inner = await api.queue(mq), api.name("outer"), api.name("inner")
    topology = Topology().exchange(outer).exchange(inner, "fanout")
    topology = topology.binding(inner, outer, "order.*", to_exchange=True).binding(queue, inner)
    await mq.declare(topology)
    assert (await mq.publisher(outer, "order.placed").send(1)).routed
    assert not (await mq.publisher(outer, "other").send(2)).routed
    delivery = await arrived(mq, queue)
    assert (delivery.exchange, delivery.routing_key, delivery.body) == (outer, "order.placed", b"1")


async def test_a_headers_exchange_matches_all_or_any(api: Api) -> None:
    mq = await api.connect()
    exchange = api.name("match")
    both, either = await api.queue(mq, "all"), await api.queue(mq, "any")
    wanted = {"tenant": "north", "lane": 2}
    topology = Topology().exchange(exchange, "headers")
    topology = topology.binding(both, exchange, args={"x-match": "all", **wanted})
    await mq.declare(topology.binding(either, exchange, args={"x-match": "any", **wanted}))
    publisher = mq.publisher(exchange)
    for headers in ({"tenant": "north", "lane": 2}, {"tenant": "north"}, {"lane": 3}):
        await publisher.send(1, headers=headers)
    await holds(mq, both, 1)
    await holds(mq, either, 2)


@pytest.mark.parametrize(
    ("pattern", "key", "matches"),
    [
        ("order.*", "order.placed", True),
        ("order.*", "order.placed.twice", False),
        ("order.#", "order", True),
        ("#", "", True),
        ("*.placed", "order.placed", True),
        ("*", "", False),
    ],
)
async def test_topic_patterns(api: Api, pattern: str, key: str, matches: bool) -> None:
    mq = await api.connect()
    queue, exchange = await api.queue(mq), api.name("events")
    await mq.declare(Topology().exchange(exchange).binding(queue, exchange, pattern))
    assert (await mq.publisher(exchange, key).send(1)).routed is matches


async def test_of_two_consumers_of_a_single_active_queue_one_gets_messages(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    queue = await api.queue(mq, single_active=True)
    active, waiting = Seen(), Seen()
    consumer = await mq.consume(queue, active, single_active=True)
    await other.consume(queue, waiting)
    await mq.publisher("", queue).send_many(range(50))
    await active.count(50)
    assert (active.payloads, waiting.payloads) == (list(range(50)), [])
    await consumer.close()
    await mq.publisher("", queue).send("then")
    assert (await waiting.first()).payload == "then"


async def test_a_single_active_successor_starts_in_order(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    queue = await api.queue(mq, single_active=True)
    gate = api.gate()
    before, after = Seen(gate.hold), Seen()
    consumer = await mq.consume(queue, before, single_active=True)
    await mq.publisher("", queue).send_many(range(30))
    await gate.holds(1)
    await other.consume(queue, after, single_active=True)
    closing = asyncio.ensure_future(consumer.close())
    await until(lambda: not consumer.running, "the stop to begin")
    gate.open()
    assert await closing
    await after.count(29)
    assert (before.payloads, after.payloads) == ([0], list(range(1, 30)))


async def test_single_active_of_a_queue_that_is_not_is_a_mismatch(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    queue = await api.queue(mq)
    with pytest.raises(DeclarationMismatch, match="x-single-active-consumer"):
        await other.consume(queue, Seen(), single_active=True)


async def test_a_failure_queue_that_stands_otherwise_is_told_at_the_start(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    await mq.declare(Topology().queue(f"{queue}.dlq"))  # a quorum queue; the contract's is classic
    other = await api.connect()
    with pytest.raises(DeclarationMismatch, match="dlq"):
        await other.consume(queue, Seen())
    await other.consume(queue, Seen(), declare=False)


async def test_an_argument_that_a_broker_does_not_know_passes_or_is_refused_by_name(
    api: Api,
) -> None:
    mq = await api.connect()
    topology = Topology().queue(api.name("orders"), quorum=False, args={"x-some-plugin": 1})
    if api.features.unknown_arguments:
        await mq.declare(topology)
    else:
        with pytest.raises(ConfigurationError, match="x-some-plugin"):
            await mq.declare(topology)
    assert (await mq.health()).ok


async def test_a_transient_queue_stands_or_is_refused_by_name(api: Api) -> None:
    mq = await api.connect()
    queue = api.name("orders")
    if not api.features.transient_queues:
        with pytest.raises(BrokerError, match=queue):
            await mq.declare(Topology().queue(queue, durable=False))
        return
    await mq.declare(Topology().queue(queue, durable=False))
    await mq.publisher("", queue).send(1)
    assert (await arrived(mq, queue)).body == b"1"


async def test_an_exclusive_queue_is_its_connection_s_own(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    queue = await api.queue(mq, exclusive=True, durable=False)
    seen = Seen()
    await mq.consume(queue, seen)
    await mq.publisher("", queue).send(1)
    await seen.first()
    with pytest.raises(BrokerError) as refused:
        await other.consume(queue, Seen())
    assert queue in str(refused.value)
    await mq.close()

    async def gone() -> bool:
        return not await other.queue_exists(queue)

    await until(gone, "the queue to go with its connection")


async def test_an_auto_delete_queue_goes_with_its_last_consumer(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq, auto_delete=True)
    consumer = await mq.consume(queue, Seen())
    assert await mq.queue_exists(queue)
    await consumer.close()

    async def gone() -> bool:
        return not await mq.queue_exists(queue)

    await until(gone, "the queue to go with its consumer")


async def test_an_auto_delete_queue_stays_while_its_consumer_opens(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq, auto_delete=True)
    await mq.publisher("", queue).send_many(range(30))
    seen = Seen()
    consumer = await mq.consume(queue, seen, prefetch=10)
    await seen.count(30)
    assert await consumer.close()
    assert sorted(seen.payloads) == list(range(30))


async def test_an_auto_delete_queue_stays_while_a_suspect_is_handled(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq, auto_delete=True)
    gate = api.gate()
    seen = Seen(by_payload(suspect=gate.hold))
    consumer = await mq.consume(queue, seen, prefetch=10)
    await mq.publisher("", queue).send("first")
    await seen.first()  # its whole prefetch is open from now on
    await api.publish_raw(queue, b'"suspect"', headers=HeaderTable.of({"x-acemq-deliveries": 2}))
    await gate.holds(1)
    await mq.publisher("", queue).send("last")
    gate.open()
    await seen.count(3)
    assert await consumer.close()
    assert seen.payloads == ["first", "suspect", "last"]
