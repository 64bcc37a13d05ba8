"""The async link against a real RabbitMQ: what each call promises, and what is left after it."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest

from acemq_amqp.address import parse_address
from acemq_amqp.core.ports import (
    Arrival,
    Confirmed,
    LinkEvents,
    Outcome,
    Outgoing,
    Refused,
    SubscriptionEvents,
    SubscriptionRequest,
    Unknown,
    Unsent,
)
from acemq_amqp.errors import (
    AccessRefused,
    AuthenticationRefused,
    BrokerError,
    BrokerTimeout,
    CannotConnect,
    ConfigurationError,
    ConnectionLost,
    DeclarationMismatch,
    NotFound,
)
from acemq_amqp.fieldtable import encode_table
from acemq_amqp.properties import HeaderTable, Properties
from acemq_amqp.topology import BindingDeclaration, ExchangeDeclaration, QueueDeclaration
from acemq_amqp.transports.aiopika import AioPikaTransport
from acemq_amqp.transports.aiopika.link import AioPikaLink
from acemq_amqp.transports.aiopika.subscription import ChannelSubscription
from tests.support.eventually import eventually
from tests.support.proxy import Proxy
from tests.support.rabbitmq import RabbitMQ

pytestmark = pytest.mark.asyncio

# ---------------------------------------------------------------- what the tests stand on


_ALL = '<<".*">>'
_BY = '<<"tests">>'


def soon(seconds: float = 30.0) -> float:
    return time.monotonic() + seconds


class Told:
    """What a link said to its owner."""

    def __init__(self) -> None:
        self.losses: list[BrokerError] = []
        self.lost = asyncio.Event()
        self.blocked: asyncio.Queue[str] = asyncio.Queue()
        self.unblocked = asyncio.Event()

    def events(self) -> LinkEvents:
        return LinkEvents(
            lost=self._lost, blocked=self.blocked.put_nowait, unblocked=self.unblocked.set
        )

    def _lost(self, why: BrokerError) -> None:
        self.losses.append(why)
        self.lost.set()


@asynccontextmanager
async def quiet() -> AsyncIterator[None]:
    """Fails where anything was left: a task, or an error that nobody retrieved."""
    loop = asyncio.get_running_loop()
    complaints: list[dict[str, Any]] = []
    before = asyncio.all_tasks()
    loop.set_exception_handler(lambda _loop, context: complaints.append(context))
    try:
        yield
        for _ in range(10):
            await asyncio.sleep(0)
        left = asyncio.all_tasks() - before
        gc.collect()
        await asyncio.sleep(0)
        gc.collect()
        assert not left
        assert not complaints
    finally:
        loop.set_exception_handler(None)


@asynccontextmanager
async def linked(url: str, told: Told | None = None) -> AsyncIterator[AioPikaLink]:
    told = told or Told()
    async with quiet():
        link = await AioPikaTransport().connect(
            parse_address(url), name="test", events=told.events(), deadline=soon()
        )
        try:
            yield link
        finally:
            await link.close(soon(5.0))
        del link


def queue(name: str, **arguments: Any) -> QueueDeclaration:
    return QueueDeclaration(
        name, durable=True, auto_delete=False, exclusive=False, arguments=arguments
    )


def message(
    key: str = "q", body: bytes = b"hello", exchange: str = "", message_id: str = "m"
) -> Outgoing:
    properties = Properties(message_id=message_id, delivery_mode=2).encode()
    return Outgoing(exchange, key, message_id, properties, body)


async def publish(link: AioPikaLink, *messages: Outgoing) -> list[Outcome]:
    pending = [link.submit(one) for one in messages]
    return [await one.outcome(soon()) for one in pending]


class Consumer:
    """A subscription whose deliveries and end can be awaited."""

    def __init__(self, subscription: ChannelSubscription | None = None) -> None:
        self.arrivals: asyncio.Queue[Arrival] = asyncio.Queue()
        self.ends: asyncio.Queue[BrokerError] = asyncio.Queue()
        self.subscription: ChannelSubscription

    @classmethod
    async def start(
        cls, link: AioPikaLink, name: str = "q", prefetch: int = 10, **options: Any
    ) -> Consumer:
        self = cls()
        request = SubscriptionRequest(name, options.pop("tag", ""), prefetch, **options)
        events = SubscriptionEvents(self.arrivals.put_nowait, self.ends.put_nowait)
        self.subscription = await link.subscribe(request, events, soon())
        return self

    async def take(self, count: int = 1) -> list[Arrival]:
        async with asyncio.timeout(30):
            return [await self.arrivals.get() for _ in range(count)]

    async def end(self) -> BrokerError:
        async with asyncio.timeout(30):
            return await self.ends.get()


# ---------------------------------------------------------------- connecting


async def test_tells_what_the_broker_is(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        assert link.broker.product == "RabbitMQ"
        assert link.broker.version == tuple(int(n) for n in own_rabbitmq.version.split("."))
        assert link.broker.login == "guest"


async def test_shows_its_name_and_leaves_no_connection(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url):
        (listed,) = own_rabbitmq.list_connections("client_properties")
        assert ["connection_name", "longstr", "test"] in listed["client_properties"]
    eventually(lambda: not own_rabbitmq.list_connections(), "the end of the connection")


async def refused(url: str, deadline: float | None = None) -> BrokerError:
    async with quiet():
        with pytest.raises(BrokerError) as caught:
            await AioPikaTransport().connect(
                parse_address(url),
                name="test",
                events=Told().events(),
                deadline=deadline or soon(),
            )
        error = caught.value
        del caught
    assert str(error).startswith("acemq: ")
    return error


async def test_wrong_password_is_an_authentication_error(own_rabbitmq: RabbitMQ) -> None:
    error = await refused(own_rabbitmq.url.replace("guest:guest", "guest:s3cret"))
    assert isinstance(error, AuthenticationRefused)
    assert error.code == 403
    assert "guest" in str(error)
    assert "s3cret" not in str(error)


async def test_missing_vhost_is_an_authentication_error(own_rabbitmq: RabbitMQ) -> None:
    error = await refused(own_rabbitmq.url_of("nowhere"))
    assert isinstance(error, AuthenticationRefused)
    assert "'nowhere'" in str(error)


@pytest.mark.parametrize(
    ("place", "expected"),
    [("127.0.0.1:1", "nothing listens"), ("no-such-host.invalid:5672", "check the host")],
)
async def test_unreachable_broker(place: str, expected: str) -> None:
    error = await refused(f"amqp://guest:guest@{place}/")
    assert isinstance(error, CannotConnect)
    assert not isinstance(error, AuthenticationRefused)
    assert expected in str(error)


async def test_silent_broker_ends_at_the_deadline(own_rabbitmq: RabbitMQ) -> None:
    with Proxy(own_rabbitmq.port) as proxy:
        proxy.hold()
        error = await refused(own_rabbitmq.url_of("/", proxy.port), soon(0.3))
    assert isinstance(error, CannotConnect)
    assert "time allowed" in str(error)


async def test_something_else_than_a_broker() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(8)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        error = await refused(f"amqp://guest:guest@127.0.0.1:{port}/")
    assert isinstance(error, CannotConnect)


def erlang(text: str) -> str:
    """Any text as an Erlang binary."""
    return f"<<{','.join(map(str, text.encode()))}>>"


@pytest.mark.parametrize(
    "name", ["a/b", "50%", "a%2fb", "at@home", "a:b", "grün", "a\\b", "..", "a b", "a+b", "#?&"]
)
async def test_any_vhost_can_be_reached(own_rabbitmq: RabbitMQ, name: str) -> None:
    all_of_it = f"{erlang('guest')}, {erlang(name)}, {_ALL}, {_ALL}, {_ALL}"
    own_rabbitmq.eval(f"rabbit_vhost:add({erlang(name)}, {erlang('tests')})")
    own_rabbitmq.eval(f"rabbit_auth_backend_internal:set_permissions({all_of_it}, {_BY})")
    url = f"amqp://guest:guest@127.0.0.1:{own_rabbitmq.port}/{quote(name, safe='')}"
    async with linked(url) as link:
        await link.declare(queue("here"), soon())
    here = f"rabbit_misc:r({erlang(name)}, queue, {erlang('here')})"
    assert own_rabbitmq.eval(f"rabbit_amqqueue:lookup({here})").startswith("{ok,")


@pytest.mark.parametrize("password", ["a/b@c:d", "50%", "%41", "grün", "a\\b", "a+b c", "#?&="])
async def test_any_login_works(own_rabbitmq: RabbitMQ, password: str) -> None:
    user = f"user {password}"
    all_of_it = f"{erlang(user)}, {erlang('/')}, {_ALL}, {_ALL}, {_ALL}"
    own_rabbitmq.eval(
        f"rabbit_auth_backend_internal:add_user({erlang(user)}, {erlang(password)}, {_BY})"
    )
    own_rabbitmq.eval(f"rabbit_auth_backend_internal:set_permissions({all_of_it}, {_BY})")
    login = f"{quote(user, safe='')}:{quote(password, safe='')}"
    async with linked(f"amqp://{login}@127.0.0.1:{own_rabbitmq.port}/") as link:
        assert link.broker.login == user
    own_rabbitmq.eval(f"rabbit_auth_backend_internal:delete_user({erlang(user)}, {_BY})")


@pytest.mark.parametrize("url", ["amqp://guest:@h/", "amqp://guest:guest@h/a%252Fb"])
async def test_what_the_driver_cannot_carry_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="acemq: "):
        await AioPikaTransport().connect(
            parse_address(url), name="test", events=Told().events(), deadline=soon()
        )


# ---------------------------------------------------------------- publishing


async def test_confirmed_publish_is_stored(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        assert await publish(link, message()) == [Confirmed()]
        state = await link.look_up_queue("q", soon())
        assert state is not None and state.messages == 1


async def test_order_is_kept_and_each_outcome_is_told_once(own_rabbitmq: RabbitMQ) -> None:
    told: list[Outcome] = []
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        messages = [message(body=b"%d" % n, message_id=str(n)) for n in range(500)]
        pending = [link.submit(one, told.append) for one in messages]
        for one in pending:
            assert await one.outcome(soon()) == Confirmed()
        consumer = await Consumer.start(link, prefetch=500)
        bodies = [arrival.body for arrival in await consumer.take(500)]
    assert bodies == [b"%d" % n for n in range(500)]
    assert told == [Confirmed()] * 500


async def test_publishing_from_another_thread(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        pending = await asyncio.to_thread(link.submit, message())
        assert await pending.outcome(soon()) == Confirmed()


async def test_unroutable_among_routed(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        first, lost, last = await publish(
            link, message(message_id="1"), message("nobody", message_id="2"), message()
        )
        assert (first, last) == (Confirmed(), Confirmed())
        assert isinstance(lost, Confirmed) and not lost.routed and "NO_ROUTE" in lost.reason


async def test_equal_messages_get_the_outcome_of_their_own(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        outcomes = await publish(
            link, message(), message("nobody"), message(), message("nobody"), message("nobody")
        )
    assert [isinstance(o, Confirmed) and o.routed for o in outcomes] == [
        True,
        False,
        True,
        False,
        False,
    ]


async def test_missing_exchange_is_refused_and_later_messages_go_on(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, message())
        before, culprit, after = (
            link.submit(message(message_id="before")),
            link.submit(message(exchange="missing", message_id="culprit")),
            link.submit(message(message_id="after")),
        )
        refusal = await culprit.outcome(soon())
        assert isinstance(refusal, Refused) and refusal.code == 404 and "missing" in refusal.reason
        assert isinstance(await before.outcome(soon()), Confirmed | Unknown)
        assert isinstance(await after.outcome(soon()), Unknown)
        assert await publish(link, message(message_id="next")) == [Confirmed()]


async def test_nack_is_a_refusal_that_may_have_been_stored(own_rabbitmq: RabbitMQ) -> None:
    full = queue("full", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    async with linked(own_rabbitmq.url) as link:
        await link.declare(full, soon())
        first, second = await publish(
            link, message("full", message_id="1"), message("full", message_id="2")
        )
        assert first == Confirmed()
        assert isinstance(second, Refused) and second.stored == "perhaps"


@pytest.mark.parametrize("size", [0, 131_064, 131_065, 5_000_000])
async def test_bodies_of_any_size_come_back(own_rabbitmq: RabbitMQ, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        assert await publish(link, message(body=body)) == [Confirmed()]
        arrival = await link.pull("q", soon())
        assert arrival is not None and arrival.body == body and arrival.settling.ack(arrival.tag)


async def test_cancelled_waiting_leaves_the_publish_alone(own_rabbitmq: RabbitMQ) -> None:
    told: asyncio.Queue[Outcome] = asyncio.Queue()
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        pending = link.submit(message(), told.put_nowait)
        waiting = asyncio.create_task(pending.outcome(soon()))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await asyncio.wait_for(told.get(), 30) == Confirmed()
        assert await pending.outcome(soon()) == Confirmed()


async def test_no_confirm_in_time_is_unknown(own_rabbitmq: RabbitMQ) -> None:
    with Proxy(own_rabbitmq.port) as proxy:
        async with linked(own_rabbitmq.url_of("/", proxy.port)) as link:
            await link.declare(queue("q"), soon())
            await publish(link, message())
            proxy.hold()
            outcome = await link.submit(message(message_id="late")).outcome(soon(0.2))
            assert isinstance(outcome, Unknown)
            proxy.resume()
            assert await publish(link, message(message_id="next")) == [Confirmed()]


async def test_slow_socket_leaves_publishes_withdrawable(own_rabbitmq: RabbitMQ) -> None:
    with Proxy(own_rabbitmq.port) as proxy:
        async with linked(own_rabbitmq.url_of("/", proxy.port)) as link:
            await link.declare(queue("q"), soon())
            await publish(link, message())
            proxy.hold()
            body = bytes(1_000_000)
            pending = [link.submit(message(body=body, message_id=str(n))) for n in range(30)]
            early = await pending[-1].outcome(soon(0.2))
            assert isinstance(early, Unsent) and not early.paused
            proxy.resume()
            outcomes = [await one.outcome(soon()) for one in pending[:-1]]
            assert outcomes == [Confirmed()] * 29
            state = await link.look_up_queue("q", soon())
            assert state is not None and state.messages == 30


# ---------------------------------------------------------------- alarms


async def test_alarm_pauses_and_what_is_withdrawn_never_turns_up(own_rabbitmq: RabbitMQ) -> None:
    told = Told()
    async with linked(own_rabbitmq.url, told) as link:
        await link.declare(queue("q"), soon())
        own_rabbitmq.alarm()
        first = link.submit(message(message_id="first"))
        reason = await asyncio.wait_for(told.blocked.get(), 30)
        assert link.blocked_reason == reason != ""
        paused = await link.submit(message(message_id="paused")).outcome(soon(0.1))
        assert paused == Unsent(reason, paused=True)
        waiting = link.submit(message(message_id="waiting"))
        own_rabbitmq.clear_alarm()
        await asyncio.wait_for(told.unblocked.wait(), 30)
        assert link.blocked_reason is None
        assert await first.outcome(soon()) == await waiting.outcome(soon()) == Confirmed()
        consumer = await Consumer.start(link)
        ids = [arrival.properties.message_id for arrival in await consumer.take(2)]
        assert ids == ["first", "waiting"]
        assert consumer.arrivals.empty()


async def test_close_returns_in_an_alarm(own_rabbitmq: RabbitMQ) -> None:
    told = Told()
    async with quiet():
        link = await AioPikaTransport().connect(
            parse_address(own_rabbitmq.url), name="test", events=told.events(), deadline=soon()
        )
        await link.declare(queue("q"), soon())
        own_rabbitmq.alarm()
        written = link.submit(message(message_id="written"))
        await asyncio.wait_for(told.blocked.get(), 30)
        queued = link.submit(message(message_id="queued"))
        await link.close(soon(0.5))
        assert isinstance(await written.outcome(soon()), Unknown)
        assert isinstance(await queued.outcome(soon()), Unsent)
        assert not told.losses
        del link, written, queued
    own_rabbitmq.clear_alarm()


# ---------------------------------------------------------------- consuming


async def test_properties_and_headers_come_as_they_were_sent(own_rabbitmq: RabbitMQ) -> None:
    headers = HeaderTable(encode_table({"ratio": 1.5, "raw": b"\x00\xff", "n": 2**40}))
    properties = Properties(
        content_type="text/plain", headers=headers, message_id="m", expiration="60000"
    )
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, Outgoing("", "q", "m", properties.encode(), b"x"))
        (arrival,) = await (await Consumer.start(link)).take()
        assert arrival.properties == properties
        assert (arrival.exchange, arrival.routing_key, arrival.redelivered) == ("", "q", False)


async def test_acks_are_kept_and_what_is_given_back_comes_again(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, *(message(message_id=str(n)) for n in range(10)))
        consumer = await Consumer.start(link)
        arrivals = await consumer.take(10)
        for arrival in arrivals:
            keep = arrival.properties.message_id != "3"
            assert (arrival.settling.ack if keep else arrival.settling.requeue)(arrival.tag)
        (again,) = await consumer.take()
        assert again.redelivered and again.properties.message_id == "3"
        await consumer.subscription.close(soon())
        state = await link.look_up_queue("q", soon())
        assert state is not None and (state.messages, state.consumers) == (1, 0)


async def test_settling_twice_or_late_does_nothing(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, *(message(message_id=str(n)) for n in range(3)))
        consumer = await Consumer.start(link)
        first, second, third = await consumer.take(3)
        settling = first.settling
        assert settling.ack(first.tag)
        assert not settling.ack(first.tag)
        assert not settling.requeue(first.tag)
        assert not settling.ack(999)
        assert await asyncio.to_thread(settling.ack, second.tag)
        assert consumer.subscription.live
        await consumer.subscription.close(soon())
        assert not consumer.subscription.live
        assert not settling.ack(third.tag)
        state = await link.look_up_queue("q", soon())
        assert state is not None and state.messages == 1


async def test_prefetch_holds_and_reopening_changes_it(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, *(message(message_id=str(n)) for n in range(10)))
        consumer = await Consumer.start(link, prefetch=1, tag="mine")
        (first,) = await consumer.take()
        assert await link.look_up_queue("q", soon()) is not None
        assert consumer.arrivals.empty()
        await consumer.subscription.reopen(4, soon())
        rest = await consumer.take(4)
        listed = own_rabbitmq.list_consumers()
        assert [(c["consumer_tag"], c["prefetch_count"]) for c in listed] == [("mine", 4)]
        assert first.settling.ack(first.tag)
        assert all(arrival.settling.ack(arrival.tag) for arrival in rest)
        assert len(await consumer.take(4)) == 4


async def test_cancelled_subscription_still_settles(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, message(message_id="1"), message(message_id="2"))
        consumer = await Consumer.start(link)
        first, second = await consumer.take(2)
        await consumer.subscription.cancel(soon())
        assert first.settling.ack(first.tag) and second.settling.requeue(second.tag)
        await consumer.subscription.close(soon())
        state = await link.look_up_queue("q", soon())
        assert state is not None and (state.messages, state.consumers) == (1, 0)
        assert consumer.ends.empty()


async def test_deleted_queue_ends_its_consumer(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, message())
        consumer = await Consumer.start(link)
        (arrival,) = await consumer.take()
        await link.delete_queue("q", soon())
        end = await consumer.end()
        assert end.code == 0 and "'q'" in str(end)
        assert not consumer.subscription.live
        assert not arrival.settling.ack(arrival.tag)
        await consumer.subscription.close(soon())
        assert consumer.ends.empty()


async def test_closed_channel_ends_its_consumer_and_no_other(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await link.declare(queue("other"), soon())
        await publish(link, message())
        consumer, other = await Consumer.start(link), await Consumer.start(link, "other")
        (arrival,) = await consumer.take()
        # An ack of an unknown tag, past the ledger: the broker closes the channel for it.
        consumer.subscription._ledger.delivered(77)
        assert arrival.settling.ack(77)
        end = await consumer.end()
        assert end.code == 406
        assert not consumer.subscription.live and other.subscription.live
        assert not arrival.settling.ack(arrival.tag)
        await publish(link, message("other"))
        assert len(await other.take()) == 1


@pytest.mark.parametrize("exclusive", [False, True])
async def test_refused_consumer_raises_and_tells_no_end(
    own_rabbitmq: RabbitMQ, exclusive: bool
) -> None:
    async with linked(own_rabbitmq.url) as link:
        if exclusive:
            await link.declare(queue("q"), soon())
            await Consumer.start(link, exclusive=True)
        consumer = Consumer()
        events = SubscriptionEvents(consumer.arrivals.put_nowait, consumer.ends.put_nowait)
        with pytest.raises(AccessRefused if exclusive else NotFound, match="'q'"):
            await link.subscribe(SubscriptionRequest("q", "t", 1), events, soon())
        assert consumer.ends.empty()
        assert not await link.look_up_exchange("nowhere", soon())


async def test_consumer_arguments_reach_the_broker(own_rabbitmq: RabbitMQ) -> None:
    stream = queue("s", **{"x-queue-type": "stream"})
    async with linked(own_rabbitmq.url) as link:
        await link.declare(stream, soon())
        await publish(link, *(message("s", b"%d" % n, message_id=str(n)) for n in range(5)))
        consumer = await Consumer.start(link, "s", arguments={"x-stream-offset": 3})
        assert [arrival.body for arrival in await consumer.take(2)] == [b"3", b"4"]


# ---------------------------------------------------------------- pulling


async def test_pull_settles_on_its_channel(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        assert await link.pull("q", soon()) is None
        await publish(link, message(message_id="1"), message(message_id="2"))
        first, second = await link.pull("q", soon()), await link.pull("q", soon())
        assert first is not None and second is not None
        assert first.settling.ack(first.tag) and second.settling.requeue(second.tag)
        again = await link.pull("q", soon())
        assert again is not None and again.redelivered and again.properties.message_id == "2"


async def test_pulls_at_once_get_a_message_each(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, *(message(message_id=str(n)) for n in range(20)))
        pulled = await asyncio.gather(*(link.pull("q", soon()) for _ in range(21)))
        ids = [arrival.properties.message_id for arrival in pulled if arrival is not None]
        assert sorted(ids, key=lambda n: int(n or 0)) == [str(n) for n in range(20)]


async def test_pull_from_a_missing_queue_leaves_others_alone(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, message())
        held = await link.pull("q", soon())
        with pytest.raises(NotFound, match="'missing'"):
            await link.pull("missing", soon())
        assert held is not None and held.settling.ack(held.tag)


async def test_pull_too_late_gives_the_message_back(own_rabbitmq: RabbitMQ) -> None:
    with Proxy(own_rabbitmq.port) as proxy:
        async with linked(own_rabbitmq.url_of("/", proxy.port)) as link:
            await link.declare(queue("q"), soon())
            await publish(link, message())
            assert await link.pull("q", soon()) is not None
            await publish(link, message(message_id="late"))
            proxy.hold()
            with pytest.raises(BrokerTimeout, match="'q'"):
                await link.pull("q", soon(0.1))
            proxy.resume()
            again = await link.pull("q", soon())
            while again is None:
                again = await link.pull("q", soon())
            assert again.properties.message_id == "late" and again.redelivered


# ---------------------------------------------------------------- declaring and looking up


async def test_declares_what_was_asked(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        for name, kind in (("source", "headers"), ("target", "fanout")):
            await link.declare(
                ExchangeDeclaration(name, kind, durable=True, auto_delete=False, arguments={}),
                soon(),
            )
        await link.declare(queue("ünïcode & % *"), soon())
        await link.declare(
            BindingDeclaration("target", "source", "", {"ratio": 1.5}, to_exchange=True), soon()
        )
        await link.declare(BindingDeclaration("ünïcode & % *", "target", "", {}), soon())
        headers = Properties(message_id="m", headers=HeaderTable(encode_table({"ratio": 1.5})))
        outgoing = Outgoing("source", "", "m", headers.encode(), b"x")
        assert await publish(link, outgoing) == [Confirmed()]
        assert await link.look_up_exchange("source", soon())
        assert await link.look_up_exchange("", soon())
        assert not await link.look_up_exchange("nowhere", soon())
        assert await link.look_up_queue("nowhere", soon()) is None
        assert await link.purge_queue("ünïcode & % *", soon()) == 1
        assert await link.delete_queue("ünïcode & % *", soon()) == 0


async def test_mismatch_names_the_queue_and_the_argument(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q", **{"x-message-ttl": 1000}), soon())
        with pytest.raises(DeclarationMismatch) as caught:
            await link.declare(queue("q", **{"x-message-ttl": 2000}), soon())
        assert caught.value.code == 406
        for part in ("queue 'q'", "x-message-ttl", "2000", "1000"):
            assert part in str(caught.value)
        await link.declare(queue("q", **{"x-message-ttl": 1000}), soon())


async def test_calls_at_once_each_get_their_own_answer(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await asyncio.gather(*(link.declare(queue(f"q{n}"), soon()) for n in range(0, 20, 2)))
        found = await asyncio.gather(*(link.look_up_queue(f"q{n}", soon()) for n in range(20)))
        assert [state is not None for state in found] == [n % 2 == 0 for n in range(20)]


async def test_call_without_answer_times_out_and_the_next_works(own_rabbitmq: RabbitMQ) -> None:
    with Proxy(own_rabbitmq.port) as proxy:
        async with linked(own_rabbitmq.url_of("/", proxy.port)) as link:
            await link.declare(queue("q"), soon())
            proxy.hold()
            with pytest.raises(BrokerTimeout, match="looking up queue 'q'"):
                await link.look_up_queue("q", soon(0.1))
            proxy.resume()
            assert await link.look_up_queue("q", soon()) is not None


async def test_cancelled_call_leaves_the_link_usable(own_rabbitmq: RabbitMQ) -> None:
    with Proxy(own_rabbitmq.port) as proxy:
        async with linked(own_rabbitmq.url_of("/", proxy.port)) as link:
            await link.declare(queue("q"), soon())
            proxy.hold()
            asking = asyncio.create_task(link.look_up_queue("q", soon()))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            proxy.resume()
            assert await link.look_up_queue("q", soon()) is not None


# ---------------------------------------------------------------- ends


async def lose(link: AioPikaLink, told: Told, cut: Any) -> BrokerError:
    """Loses a link under a publish in flight, a consumer and a call; checks what each is told."""
    await link.declare(queue("q"), soon())
    await publish(link, message(message_id="done"))
    consumer = await Consumer.start(link)
    (arrival,) = await consumer.take()
    await cut()
    await asyncio.wait_for(told.lost.wait(), 30)
    assert not consumer.subscription.live
    assert not arrival.settling.ack(arrival.tag)
    assert consumer.ends.empty()
    after = await link.submit(message(message_id="after")).outcome(soon())
    assert isinstance(after, Unsent)
    with pytest.raises(ConnectionLost):
        await link.look_up_queue("q", soon())
    with pytest.raises(ConnectionLost):
        await link.pull("q", soon())
    with pytest.raises(ConnectionLost):
        await Consumer.start(link)
    await consumer.subscription.close(soon())
    assert len(told.losses) == 1
    return told.losses[0]


async def test_closed_by_the_operator(
    own_rabbitmq: RabbitMQ, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()
    async with linked(own_rabbitmq.url, told) as link:

        async def cut() -> None:
            await asyncio.to_thread(own_rabbitmq.close_connections, "maintenance")

        why = await lose(link, told, cut)
    assert isinstance(why, ConnectionLost)
    assert why.code == 320 and "maintenance" in str(why)
    assert not caplog.records


async def test_reset_by_the_network(
    own_rabbitmq: RabbitMQ, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()
    with Proxy(own_rabbitmq.port) as proxy:
        async with linked(own_rabbitmq.url_of("/", proxy.port), told) as link:
            written: list[Any] = []

            async def cut() -> None:
                proxy.hold()
                written.append(link.submit(message(message_id="written")))
                written.append(asyncio.create_task(link.look_up_queue("q", soon())))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                proxy.cut()

            why = await lose(link, told, cut)
            assert isinstance(await written[0].outcome(soon()), Unknown)
            with pytest.raises(ConnectionLost):
                await written[1]
            written.clear()
    assert isinstance(why, ConnectionLost)
    assert str(proxy.port) in str(why)
    assert not caplog.records


async def test_silence_is_a_loss(own_rabbitmq: RabbitMQ, caplog: pytest.LogCaptureFixture) -> None:
    told = Told()
    with Proxy(own_rabbitmq.port) as proxy:
        url = own_rabbitmq.url_of("/", proxy.port) + "?heartbeat=1"
        async with linked(url, told) as link:

            async def cut() -> None:
                proxy.blackhole()

            why = await lose(link, told, cut)
    assert "heartbeat" in str(why)
    assert not caplog.records


async def test_abort_tells_no_loss_and_settles(own_rabbitmq: RabbitMQ) -> None:
    told = Told()
    async with linked(own_rabbitmq.url, told) as link:
        await link.declare(queue("q"), soon())
        await publish(link, message())
        written = link.submit(message(message_id="written"))
        await asyncio.sleep(0)
        link.abort()
        queued = link.submit(message(message_id="queued"))
        assert isinstance(await written.outcome(soon()), Unknown)
        assert isinstance(await queued.outcome(soon()), Unsent)
    assert not told.losses


async def test_close_flushes_what_was_settled(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        await publish(link, message())
        (arrival,) = await (await Consumer.start(link)).take()
        assert arrival.settling.ack(arrival.tag)
    async with linked(own_rabbitmq.url) as link:
        state = await link.look_up_queue("q", soon())
        assert state is not None and state.messages == 0


async def test_closing_twice_is_fine(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.close(soon(5.0))
        await link.close(soon(5.0))
        link.abort()


async def test_many_channels_come_and_go(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        await link.declare(queue("q"), soon())
        for _ in range(50):
            consumers = await asyncio.gather(*(Consumer.start(link) for _ in range(10)))
            await asyncio.gather(*(one.subscription.close(soon()) for one in consumers))
        listed = own_rabbitmq.ctl("list_connections", "channels", "--silent")
        assert int(listed) <= 1
