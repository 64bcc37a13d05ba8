"""Bad input is a typed error at once that says what to do, and nothing is sent for it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from acemq_amqp import (
    AceMQError,
    AuthenticationRefused,
    CannotConnect,
    ConfigurationError,
    Connection,
    EncodeError,
    Envelope,
    RetryPolicy,
    Topology,
    fixed_retry,
    in_progress,
)
from acemq_amqp.codecs.bytes import BytesCodec
from acemq_amqp.codecs.json import JsonCodec
from acemq_amqp.codecs.text import TextCodec
from tests.contract.api import Api
from tests.contract.seen import Seen
from tests.contract.stands import as_login

_CONNECT: dict[str, dict[str, Any]] = {
    "prefetch 0": {"prefetch": 0},
    "prefetch in words": {"prefetch": "20"},
    "a true prefetch": {"prefetch": True},
    "prefetch over 16 bits": {"prefetch": 65536},
    "no place": {"max_outstanding": 0},
    "negative bytes": {"max_outstanding_bytes": -1},
    "a message size of 0": {"max_message_size": 0},
    "a negative time-out": {"timeout": -1},
    "a time-out of NaN": {"timeout": float("nan")},
    "a time-out in words": {"timeout": "10s"},
    "a time-out of True": {"timeout": True},
    "no duration": {"connect_timeout": None},
    "a codec class": {"codec": JsonCodec},
    "no codec": {"codec": "json"},
    "a policy of a number": {"retry": 3},
    "a policy class": {"retry": RetryPolicy},
    "an origin of bytes": {"origin": b"me"},
    "an endless origin": {"origin": "x" * 256},
    "an interceptor that cannot be called": {"on_publish": ["stamp"]},
    "a wrapper that cannot be called": {"on_consume": 3},
    "an observer of nothing": {"observer": object()},
}


@pytest.mark.parametrize("option", list(_CONNECT))
async def test_a_connect_that_cannot_work(api: Api, option: str) -> None:
    with pytest.raises(ConfigurationError, match="acemq: "):
        await api.connect(**_CONNECT[option])


@pytest.mark.parametrize("keyword", ["prefech", "username", "ssl"])
async def test_an_unknown_keyword_of_connect(api: Api, keyword: str) -> None:
    with pytest.raises(TypeError, match=keyword):
        await api.connect(**{keyword: 1})


_URLS = {
    "no scheme": "localhost",
    "another scheme": "http://localhost",
    "an unknown parameter": "amqp://localhost?hartbeat=5",
    "a port out of range": "amqp://localhost:99999",
    "no url": 5,
    "an empty list": [],
    "memory and amqp": ["memory://one", "amqp://localhost"],
    "nothing": "",
}


@pytest.mark.parametrize("what", list(_URLS))
async def test_an_address_that_cannot_work(api: Api, what: str) -> None:
    with pytest.raises(ConfigurationError, match="acemq: "):
        await api.flavour.connect(_URLS[what])  # type: ignore[arg-type]


async def test_a_password_is_in_no_error(api: Api) -> None:
    with pytest.raises(ConfigurationError) as told:
        await api.flavour.connect("amqp://guest:s3cret@localhost?nonsense=1")
    assert "s3cret" not in str(told.value) and "s3cret" not in repr(told.value)


_CONSUME: dict[str, dict[str, Any]] = {
    "prefetch 0": {"prefetch": 0},
    "concurrency 0": {"concurrency": 0},
    "concurrency above prefetch": {"prefetch": 2, "concurrency": 3},
    "concurrency above the connection's prefetch": {"concurrency": 21},
    "a fractional concurrency": {"concurrency": 1.5},
    "a codec class": {"codec": TextCodec},
    "a policy of a number": {"retry": 3},
    "arguments in a list": {"args": [1]},
    "arguments that cannot travel": {"args": {"x-priority": object()}},
    "a tag of a number": {"tag": 5},
    "an endless tag": {"tag": "x" * 256},
    "no deliveries": {"max_deliveries": 0},
}


@pytest.mark.parametrize("option", list(_CONSUME))
async def test_a_consume_that_cannot_work(api: Api, option: str) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    with pytest.raises(ConfigurationError, match="acemq: "):
        await mq.consume(queue, Seen(), **_CONSUME[option])
    assert mq.consumers == ()
    await _nothing_happened(mq, queue)


@pytest.mark.parametrize("handler", [None, "handle", 3, Seen().payloads], ids=repr)
async def test_a_handler_that_cannot_be_called(api: Api, handler: Any) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    with pytest.raises(ConfigurationError, match="callable"):
        await mq.consume(queue, handler)
    await _nothing_happened(mq, queue)


@pytest.mark.parametrize("queue", [None, 5, b"orders", "x" * 256], ids=lambda name: str(name)[:9])
async def test_a_queue_name_that_cannot_travel(api: Api, queue: Any) -> None:
    mq = await api.connect()
    with pytest.raises(ConfigurationError, match="queue"):
        await mq.consume(queue, Seen())


@pytest.mark.parametrize("flavour", ["blocking"], indirect=True)
async def test_a_coroutine_function_where_there_is_no_loop(api: Api) -> None:
    async def handle(message: Any) -> None:
        raise AssertionError

    mq = await api.connect()
    queue = await api.queue(mq)
    with pytest.raises(ConfigurationError, match="coroutine function"):
        await mq.consume(queue, handle)
    await _nothing_happened(mq, queue)


_SEND: dict[str, dict[str, Any]] = {
    "a reserved header": {"headers": {"x-acemq-mine": 1}},
    "headers in a list": {"headers": [("a", 1)]},
    "a naive moment": {"headers": {"when": datetime(2026, 1, 1)}},
    "a NaN": {"headers": {"ratio": float("nan")}},
    "a negative priority": {"priority": -1},
    "priority 256": {"priority": 256},
    "a true priority": {"priority": True},
    "no expiration left": {"expiration": 0},
    "an expiration under 1 ms": {"expiration": timedelta(microseconds=100)},
    "a negative expiration": {"expiration": -5},
    "an expiration in words": {"expiration": "5s"},
    "a routing key of a number": {"routing_key": 5},
    "an endless routing key": {"routing_key": "x" * 256},
    "an envelope of a dict": {"envelope": {"id": "1"}},
    "an endless id": {"envelope": Envelope(id="x" * 256)},
    "a reply queue of a number": {"reply_to": 5},
    "an endless reply queue": {"reply_to": "x" * 256},
}


@pytest.mark.parametrize("option", list(_SEND))
async def test_a_send_that_cannot_work(api: Api, option: str) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    with pytest.raises(ConfigurationError, match="acemq: "):
        await mq.publisher("", queue).send(1, **_SEND[option])
    await _nothing_happened(mq, queue)


_PAYLOADS: dict[str, tuple[Any, Any]] = {
    "NaN in JSON": (JsonCodec(), float("nan")),
    "infinity deep in JSON": (JsonCodec(), {"a": [float("inf")]}),
    "an object in JSON": (JsonCodec(), object()),
    "text as bytes": (BytesCodec(), "text"),
    "a dict as bytes": (BytesCodec(), {}),
    "bytes as text": (TextCodec(), b"bytes"),
    "a lone surrogate as text": (TextCodec(), "\ud800"),
}


@pytest.mark.parametrize("payload", list(_PAYLOADS))
async def test_a_payload_that_its_codec_cannot_write(api: Api, payload: str) -> None:
    codec, value = _PAYLOADS[payload]
    mq = await api.connect()
    queue = await api.queue(mq)
    with pytest.raises(EncodeError, match="acemq: "):
        await mq.publisher("", queue, codec=codec).send(value)
    await _nothing_happened(mq, queue)


async def test_a_codec_that_does_not_give_bytes(api: Api) -> None:
    class Wrong(JsonCodec):
        def encode(self, payload: Any) -> bytes:
            return "text"  # type: ignore[return-value]

    mq = await api.connect(codec=Wrong())
    queue = await api.queue(mq)
    with pytest.raises(EncodeError, match="bytes"):
        await mq.publisher("", queue).send(1)
    assert await mq.message_count(queue) == 0


@pytest.mark.parametrize("payloads", ["text", b"bytes", {"a": 1}, None, 5], ids=repr)
async def test_a_batch_that_is_none(api: Api, payloads: Any) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)
    with pytest.raises(ConfigurationError, match="send_many"):
        await mq.publisher("", queue).send_many(payloads)
    await _nothing_happened(mq, queue)


async def test_an_interceptor_that_returns_something_else(api: Api) -> None:
    mq = await api.connect(on_publish=lambda publication: "changed")
    queue = await api.queue(mq)
    with pytest.raises(ConfigurationError, match="interceptor"):
        await mq.publisher("", queue).send(1)
    assert await mq.message_count(queue) == 0


async def test_a_publisher_of_names_that_cannot_travel(api: Api) -> None:
    mq = await api.connect()
    for arguments in (("x" * 256, ""), ("", "x" * 256), (None, ""), ("", 5)):
        with pytest.raises(ConfigurationError):
            mq.publisher(*arguments)
    with pytest.raises(ConfigurationError):
        mq.publisher("", "orders", codec=JsonCodec)  # type: ignore[arg-type]


_MAKERS: dict[str, Callable[[], Any]] = {
    "a policy of no attempts": lambda: RetryPolicy(max_attempts=0),
    "a policy that contradicts itself": lambda: RetryPolicy(2, 60, max_delay=1),
    "a jitter over 1": lambda: fixed_retry(2, 1).with_jitter(1.5),
    "a queue in two ways": lambda: Topology().queue("q").queue("q", quorum=False),
    "a quorum queue for one": lambda: Topology().queue("q", quorum=True, exclusive=True),
    "a queue of the broker's": lambda: Topology().queue("amq.mine"),
    "a queue without a name": lambda: Topology().queue(""),
    "a binding to nothing": lambda: Topology().binding("q", ""),
    "a naive first moment": lambda: Envelope(first_seen=datetime(2026, 1, 1)),
    "an attempt of 0": lambda: Envelope(attempt=0),
    "a version of 0": lambda: Envelope(version=0),
    "a delay in words": lambda: in_progress("5s"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", list(_MAKERS))
def test_a_value_that_contradicts_itself(what: str) -> None:
    with pytest.raises(ConfigurationError, match="acemq: "):
        _MAKERS[what]()


@pytest.mark.parametrize("wrong", [None, "orders", {"queue": "orders"}], ids=repr)
async def test_a_topology_that_is_none(api: Api, wrong: Any) -> None:
    mq = await api.connect()
    with pytest.raises(ConfigurationError, match="Topology"):
        await mq.declare(wrong)
    with pytest.raises(ConfigurationError, match="Topology"):
        await mq.verify(wrong)


async def test_an_argument_the_broker_does_not_take(api: Api) -> None:
    mq = await api.connect()
    with pytest.raises(AceMQError, match="x-max-length"):
        await mq.declare(Topology().queue(api.name("orders"), args={"x-max-length": -1}))
    with pytest.raises(ConfigurationError, match="x-odd"):
        await mq.declare(Topology().queue(api.name("odd"), args={"x-odd": object()}))
    assert (await mq.health()).ok


async def _nothing_happened(mq: Connection, queue: str) -> None:
    """Nothing was sent to the queue, nothing declared beside it, and the connection works."""
    assert await mq.message_count(queue) == 0
    assert not await mq.queue_exists(f"{queue}.dlq")
    assert mq.outstanding == 0
    assert (await mq.publisher("", queue).send("works")).routed


# ---------------------------------------------------------------- a broker that is not there

on_rabbitmq = pytest.mark.parametrize("stand", ["rabbitmq"], indirect=True)


@pytest.mark.server
@on_rabbitmq
@pytest.mark.parametrize("fail_fast", [True, False])
async def test_a_wrong_password_is_told_at_once(api: Api, fail_fast: bool) -> None:
    url = as_login(api.stand.url, "nobody")
    with pytest.raises(AuthenticationRefused, match="acemq: ") as told:
        await api.flavour.connect(url, fail_fast=fail_fast)
    assert "nobody:nobody" not in str(told.value)


@pytest.mark.server
@on_rabbitmq
@pytest.mark.parametrize("fail_fast", [True, False])
async def test_a_missing_virtual_host_is_told_at_once(api: Api, fail_fast: bool) -> None:
    url = api.stand.url.rpartition("/")[0] + "/missing-vhost"
    with pytest.raises(AuthenticationRefused, match="missing-vhost"):
        await api.flavour.connect(url, fail_fast=fail_fast)


@pytest.mark.server
@on_rabbitmq
async def test_a_dead_port_is_told_at_once_where_it_should(api: Api) -> None:
    with pytest.raises(CannotConnect, match="acemq: "):
        await api.flavour.connect(f"amqp://127.0.0.1:{_dead_port()}", fail_fast=True)


@pytest.mark.server
@on_rabbitmq
async def test_a_dead_port_is_tried_until_the_deadline(api: Api) -> None:
    url = f"amqp://127.0.0.1:{_dead_port()}"
    with pytest.raises(CannotConnect, match=r"127\.0\.0\.1"):
        await api.flavour.connect(url, connect_timeout=0.5)


@pytest.mark.server
@on_rabbitmq
async def test_an_unknown_host_is_told(api: Api) -> None:
    with pytest.raises(CannotConnect, match="no-such-host"):
        await api.flavour.connect("amqp://no-such-host.invalid", fail_fast=True)


@pytest.mark.server
@on_rabbitmq
async def test_the_next_address_is_tried(api: Api) -> None:
    dead = f"amqp://guest:guest@127.0.0.1:{_dead_port()}"
    mq = await api.flavour.connect([dead, api.stand.url])  # type: ignore[arg-type]
    try:
        assert (await mq.health()).ok
    finally:
        await mq.close()


@pytest.mark.parametrize("troubled_stand", ["memory"], indirect=True)
async def test_a_memory_broker_that_is_stopped(troubled: Api) -> None:
    await troubled.stand.stop()
    with pytest.raises(CannotConnect, match="stopped"):
        await troubled.connect(fail_fast=True)


def _dead_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("call", ["purge", "delete_queue", "queue_exists", "message_count", "pull"])
@pytest.mark.parametrize("name", ["", "q" * 256, "\udc80", 3, b"q"], ids=repr)
async def test_a_name_that_is_none_is_refused_before_the_broker_sees_it(
    api: Api, call: str, name: Any
) -> None:
    mq = await api.connect()
    queue = await api.queue(mq)  # the broker takes "" for the queue declared last
    await mq.publisher("", queue).send(1)
    with pytest.raises(ConfigurationError, match="name of"):
        await getattr(mq, call)(name)
    assert await mq.message_count(queue) == 1


def test_an_exchange_of_an_unknown_kind_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="take topic"):
        Topology().exchange("events", "tpoic")
