"""Looking at queues and into them by hand."""

from __future__ import annotations

import pytest

from acemq_amqp import NotFound, Topology
from tests.contract.api import Api, arrived, holds
from tests.contract.waiting import until


async def test_a_pulled_message_is_whole_and_gone_when_acknowledged(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    result = await mq.publisher("", queue).send({"n": 1}, headers={"tenant": "north"})
    delivery = await until(lambda: mq.pull(queue), "the message")
    assert (delivery.queue, delivery.exchange, delivery.routing_key) == (queue, "", queue)
    assert (delivery.body, delivery.redelivered) == (b'{"n":1}', False)
    assert delivery.headers["tenant"] == "north"
    message = delivery.message()
    assert (message.payload, message.envelope.id) == (b'{"n":1}', result.message_id)
    assert await delivery.ack()
    assert not await delivery.ack()
    assert not await delivery.requeue()
    assert await mq.pull(queue) is None


async def test_a_pulled_message_may_be_put_back(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    await mq.publisher("", queue).send(1)
    first = await until(lambda: mq.pull(queue), "the message")
    assert await first.requeue()
    second = await until(lambda: mq.pull(queue), "the message again")
    assert second.redelivered and second.body == first.body
    assert await second.ack()


async def test_an_unsettled_pull_goes_back_when_its_connection_closes(api: Api) -> None:
    mq, other = await api.connect(), await api.connect()
    queue = await api.queue(other)
    await other.publisher("", queue).send(1)
    delivery = await until(lambda: mq.pull(queue), "the message")
    await holds(other, queue, 0)
    await mq.close()
    assert not await delivery.ack()
    assert (await arrived(other, queue)).redelivered


async def test_an_empty_queue_gives_none(api: Api) -> None:
    mq = await api.connect()
    assert await mq.pull(await api.queue(mq)) is None


async def test_several_pulls_stand_beside_each_other(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    await mq.publisher("", queue).send_many(range(3))
    await holds(mq, queue, 3)
    pulled = [await mq.pull(queue) for _ in range(3)]
    assert [each.body for each in pulled if each] == [b"0", b"1", b"2"]
    assert pulled[1] is not None and await pulled[1].ack()
    assert pulled[0] is not None and await pulled[0].requeue()
    assert pulled[2] is not None and await pulled[2].ack()
    assert (await arrived(mq, queue)).body == b"0"


async def test_consumers_are_counted_whoever_has_them(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    assert await mq.consumer_count(queue) == 0
    other = await api.connect_other()
    async with await other.consume(queue, lambda message: None):
        assert await mq.consumer_count(queue) == 1


async def test_a_broker_tells_what_it_is(api: Api) -> None:
    mq = await api.connect()
    broker = mq.broker
    assert broker is not None
    assert broker.product and broker.version >= (3,) and broker.login
    await mq.close()
    assert mq.broker is None


@pytest.mark.parametrize("call", ["pull", "message_count", "consumer_count", "purge"])
async def test_a_queue_that_is_not_there_is_told(api: Api, call: str) -> None:
    mq = await api.connect()
    missing = api.name("missing")
    with pytest.raises(NotFound) as told:
        await getattr(mq, call)(missing)
    assert missing in str(told.value) and told.value.code == 404
    assert not await mq.queue_exists(missing)  # the connection goes on


async def test_counting_purging_and_deleting(api: Api) -> None:
    mq = await api.connect()
    queue = await api.queue(mq, quorum=False)
    publisher = mq.publisher("", queue)
    await publisher.send_many(range(5))
    await holds(mq, queue, 5)
    assert await mq.purge(queue) == 5
    assert await mq.message_count(queue) == 0
    await publisher.send_many(range(2))
    await holds(mq, queue, 2)
    assert await mq.delete_queue(queue) == 2
    assert not await mq.queue_exists(queue)
    assert await mq.delete_queue(queue) == 0


async def test_what_was_deleted_can_be_declared_anew_and_otherwise(api: Api) -> None:

    mq = await api.connect()
    queue = await api.queue(mq)
    await mq.delete_queue(queue)
    await mq.declare(Topology().queue(queue, quorum=False))
    await mq.publisher("", queue).send(1)
    assert (await arrived(mq, queue)).body == b"1"
