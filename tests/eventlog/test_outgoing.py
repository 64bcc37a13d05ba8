"""A push that waits in an outbox: what a relay sends is what a push would have sent."""

from __future__ import annotations

from typing import Any

import pytest

from acemq_amqp.codec import Codec
from acemq_amqp.codecs.json import JsonCodec
from acemq_amqp.core import connection as core
from acemq_amqp.errors import ConfigurationError, EncodeError
from acemq_amqp.eventlog.log import Log
from acemq_amqp.eventlog.outgoing import push_record
from acemq_amqp.eventlog.records import LogRecord, WindowInfo
from acemq_amqp.patterns import InMemoryOutboxStore
from tests.contract.api import Api
from tests.contract.streams import on
from tests.eventlog.stories import messages
from tests.patterns.relays import make_relay

WINDOW = WindowInfo("north", 1700000000.125, 1700000060.0, 1, "5e1f")


async def test_a_relay_sends_the_very_message(api: Api) -> None:
    mq = await api.connect()
    name, store = api.name("log"), InMemoryOutboxStore()

    async def recorded(mq: core.Connection) -> None:
        log = Log(mq, name, streams=2)
        await log.ready()
        for number in range(3):
            record = push_record(
                mq,
                log.stream_of("eu"),
                "eu",
                {"n": number},
                now=1700000100.5,
                id=f"window-{number}",
                window=WINDOW,
                headers={"query": "totals"},
            )
            await store.add(record)

    await on(mq, recorded)
    relay = make_relay(api, mq, store)
    assert await relay.sweep() == 3

    async def found(mq: core.Connection) -> list[LogRecord]:
        log = Log(mq, name)
        await log.ready()
        return await messages(mq, log.stream_of("eu"))

    sent = await on(mq, found)
    assert [record.id for record in sent] == ["window-0", "window-1", "window-2"]
    assert [record.arrival.body for record in sent] == [b'{"n":0}', b'{"n":1}', b'{"n":2}']
    assert {(record.lane, record.time, record.window) for record in sent} == {
        ("eu", 1700000100.5, WINDOW)
    }
    headers = sent[0].arrival.properties.headers.values()
    assert (headers["query"], headers["x-stream-filter-value"]) == ("totals", "eu")
    assert sent[0].arrival.properties.content_type == "application/json"


class Origin:
    """What a record asks of a connection."""

    codec: Codec = JsonCodec()
    origin = "tests@here"


@pytest.mark.parametrize(
    ("lane", "payload", "error"),
    [("", 1, ConfigurationError), ("a\0b", 1, ConfigurationError), ("a", object(), EncodeError)],
)
def test_what_cannot_be_sent_fails_where_it_is_recorded(
    lane: str, payload: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        push_record(Origin(), "log", lane, payload, now=1.0)


def test_records_of_one_lane_go_out_in_order_and_lanes_side_by_side() -> None:
    origin = Origin()
    keys = [push_record(origin, "log", lane, 1, now=1.0).ordering_key for lane in "aab"]
    assert keys[0] == keys[1] != keys[2]
