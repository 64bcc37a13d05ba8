"""Connecting: what the broker says of itself, and each way of not getting in."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import pytest

from acemq_amqp.address import parse_address
from acemq_amqp.errors import (
    AuthenticationRefused,
    BrokerError,
    CannotConnect,
    ConfigurationError,
)
from acemq_amqp.transports.aiopika import AioPikaTransport
from tests.support.proxy import Proxy
from tests.support.rabbitmq import RabbitMQ
from tests.transports.aiopika.stand import Told, comes, connected, linked, queue, quiet, soon

pytestmark = pytest.mark.server

_ALL = '<<".*">>'
_BY = '<<"tests">>'


async def test_tells_what_the_broker_is(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url) as link:
        assert link.broker.product == "RabbitMQ"
        assert link.broker.version == tuple(int(n) for n in own_rabbitmq.version.split("."))
        assert link.broker.login == "guest"


async def test_shows_its_name_and_leaves_no_connection(own_rabbitmq: RabbitMQ) -> None:
    async with linked(own_rabbitmq.url):
        (listed,) = own_rabbitmq.list_connections("client_properties")
        assert ["connection_name", "longstr", "test"] in listed["client_properties"]
    await comes(lambda: not own_rabbitmq.list_connections(), "the end of the connection")


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
    [("127.0.0.1:1", "nothing listens"), ("no-such-host.invalid:5672", "no-such-host.invalid")],
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
        await connected(url, Told())
