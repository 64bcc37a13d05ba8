"""What the broker does not take is told by type, on the call that sent it and on no other."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from acemq_amqp import (
    BatchError,
    ConfigurationError,
    EncodeError,
    Envelope,
    PublishRefused,
    PublishResult,
    Topology,
)
from acemq_amqp.codecs.bytes import BytesCodec
from tests.contract.api import Api, arrived, holds


async def test_a_queue_that_is_not_there_refuses(api: Api) -> None:
    mq = await api.connect()
    missing = api.name("missing")
    with pytest.raises(PublishRefused, match="nothing was stored") as refused:
        await mq.publisher("", missing).send(1)
    assert refused.value.stored == "no"
    assert refused.value.code == 312
    assert missing in str(refused.value) and refused.value.message_id in str(refused.value)


async def test_an_exchange_that_routes_nowhere_tells_it_in_the_result(api: Api) -> None:
    mq = await api.connect()
    exchange = api.name("events")
    await mq.declare(Topology().exchange(exchange))
    result = await mq.publisher(exchange, "nobody.listens").send(1)
    assert not result.routed
    assert "NO_ROUTE" in result.reason


async def test_mandatory_makes_an_unroutable_message_an_error(api: Api) -> None:
    mq = await api.connect()
    exchange = api.name("events")
    await mq.declare(Topology().exchange(exchange))
    with pytest.raises(PublishRefused, match="no queue took"):
        await mq.publisher(exchange, "nobody.listens", mandatory=True).send(1)


async def test_mandatory_can_be_waived_for_a_queue(api: Api) -> None:
    mq = await api.connect()
    result = await mq.publisher("", api.name("missing"), mandatory=False).send(1)
    assert not result.routed


async def test_three_sends_of_one_id_to_a_missing_queue_are_three_refusals(api: Api) -> None:
    mq = await api.connect()
    publisher = mq.publisher("", api.name("missing"))
    envelope = Envelope()
    sends = [publisher.send(number, envelope=envelope) for number in range(3)]
    outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [PublishRefused] * 3


async def test_a_missing_exchange_harms_nobody_else(api: Api) -> None:
    mq = await api.connect()
    queue, exchange = await api.queue(mq), api.name("missing")
    good, bad = mq.publisher("", queue), mq.publisher(exchange, "key")
    sends: list[Any] = [(bad if number % 5 == 0 else good).send(number) for number in range(50)]
    outcomes = await asyncio.gather(*sends, return_exceptions=True)
    for number, outcome in enumerate(outcomes):
        if number % 5:
            assert isinstance(outcome, PublishResult) and outcome.routed
        else:
            assert isinstance(outcome, PublishRefused) and outcome.code == 404
            assert exchange in str(outcome)
    await holds(mq, queue, 40)


async def test_a_missing_exchange_works_once_it_is_declared(api: Api) -> None:
    mq = await api.connect()
    queue, exchange = await api.queue(mq), api.name("late")
    publisher = mq.publisher(exchange, "key")
    with pytest.raises(PublishRefused):
        await publisher.send(1)
    await mq.declare(Topology().exchange(exchange, "direct").binding(queue, exchange, "key"))
    assert (await publisher.send(2)).routed
    assert (await arrived(mq, queue)).body == b"2"


async def test_a_full_queue_that_rejects_may_have_stored_it_elsewhere(api: Api) -> None:
    mq = await api.connect()
    full = await api.queue(mq, quorum=False, args=_full_after(1))
    publisher = mq.publisher("", full)
    await publisher.send(1)
    with pytest.raises(PublishRefused) as refused:
        await publisher.send(2)
    assert refused.value.stored == "perhaps"
    await holds(mq, full, 1)


async def test_a_batch_tells_exactly_which_were_refused(api: Api) -> None:
    mq = await api.connect()
    full = await api.queue(mq, quorum=False, args=_full_after(3))
    with pytest.raises(BatchError, match="2 of 5") as batch:
        await mq.publisher("", full).send_many(range(5))
    outcomes = batch.value.outcomes
    assert [type(outcome) for outcome in outcomes[:3]] == [PublishResult] * 3
    assert [type(outcome) for outcome in outcomes[3:]] == [PublishRefused] * 2
    assert [(await arrived(mq, full)).body for _ in range(3)] == [b"0", b"1", b"2"]


async def test_a_batch_to_a_missing_queue_has_a_refusal_for_each(api: Api) -> None:
    mq = await api.connect()
    with pytest.raises(BatchError) as batch:
        await mq.publisher("", api.name("missing")).send_many([1, 2, 3])
    assert [type(outcome) for outcome in batch.value.outcomes] == [PublishRefused] * 3


async def test_a_batch_to_a_missing_exchange_has_a_refusal_for_each(api: Api) -> None:
    mq = await api.connect()
    with pytest.raises(BatchError) as batch:
        await mq.publisher(api.name("missing"), "key").send_many([1, 2])
    assert [outcome.code for outcome in batch.value.outcomes] == [404, 404]


async def test_too_large_is_refused_before_the_wire_with_a_way_out(api: Api) -> None:
    mq = await api.connect(max_message_size=2 * 1024 * 1024, codec=BytesCodec())
    queue = await api.queue(mq)
    publisher = mq.publisher("", queue)
    with pytest.raises(PublishRefused, match="ClaimCheckCodec") as refused:
        await publisher.send(b"x" * (2 * 1024 * 1024 + 1))
    assert refused.value.stored == "no"
    await publisher.send(b"small")
    assert (await arrived(mq, queue)).body == b"small"


@pytest.mark.parametrize("size", [1001, 900_000])
async def test_a_small_limit_holds_too(api: Api, size: int) -> None:
    mq = await api.connect(max_message_size=1000, codec=BytesCodec())
    queue = await api.queue(mq)
    with pytest.raises(PublishRefused, match="ClaimCheckCodec"):
        await mq.publisher("", queue).send(b"x" * size)
    await mq.publisher("", queue).send(b"x" * 1000)
    await holds(mq, queue, 1)


async def test_a_payload_that_cannot_be_encoded_sends_nothing_of_its_batch(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    publisher = mq.publisher("", queue)
    with pytest.raises(EncodeError):
        await publisher.send_many([1, 2, object(), 4])
    await publisher.send("after")
    assert (await arrived(mq, queue)).body == b'"after"'


async def test_an_exchange_that_was_deleted_meanwhile_is_told_as_missing(api: Api) -> None:
    mq = await api.connect()
    exchange, queue = api.name("fleeting"), await api.queue(mq, exclusive=True, durable=False)
    topology = Topology().exchange(exchange, "direct", auto_delete=True)
    await mq.declare(topology.binding(queue, exchange, "key"))
    publisher = mq.publisher(exchange, "key")
    assert (await publisher.send(1)).routed
    await mq.delete_queue(queue)  # the last binding goes, and the exchange with it
    with pytest.raises(PublishRefused) as refused:
        await publisher.send(2)
    assert refused.value.code == 404
    good = await api.queue(mq, "good")
    assert (await mq.publisher("", good).send(3)).routed


async def test_a_closed_connection_takes_nothing(api: Api) -> None:
    mq = await api.connect(timeout=1.0)
    queue = await api.queue(mq)
    publisher = mq.publisher("", queue)
    await publisher.send(1)
    await mq.close()
    with pytest.raises((PublishRefused, ConfigurationError), match="closed"):
        await publisher.send(2)
    other = await api.connect()
    await holds(other, queue, 1)


def _full_after(count: int) -> dict[str, Any]:
    return {"x-max-length": count, "x-overflow": "reject-publish"}


async def test_another_s_user_id_is_refused_and_harms_nobody_else(api: Api) -> None:
    mq = await api.connect()
    publisher = mq.publisher("", await api.queue(mq))
    neighbour = asyncio.ensure_future(publisher.send("neighbour"))
    with pytest.raises(PublishRefused, match="user_id is 'somebody'") as refused:
        await publisher.send("mine", user_id="somebody")
    assert (refused.value.code, refused.value.stored) == (406, "no")
    assert (await neighbour).repeated == 0
    await holds(mq, publisher.routing_key, 1)


@pytest.mark.parametrize(
    "asked",
    [
        {"timestamp": datetime(2026, 1, 2)},
        {"timestamp": datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)},
        {"timestamp": 1_767_323_045_678},
        {"timestamp": 1.5},
        {"timestamp": True},
        {"timestamp": "2026-01-02T00:00:00Z"},
        {"correlation_id": "é" * 128},
        {"type": 7},
        {"app_id": "\ud800"},
        {"content_encoding": b"gzip"},
        {"routing_key": "\ud800"},
        {"routing_key": "\ud800" * 64},
    ],
)
async def test_a_property_that_cannot_travel_sends_nothing(api: Api, asked: Any) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    with pytest.raises(ConfigurationError, match=r"^acemq: "):
        await mq.publisher("", queue).send(1, **asked)
    assert await mq.pull(queue) is None
