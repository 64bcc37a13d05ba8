"""Connecting: what the broker says of itself, and each way of not getting in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from acemq_amqp.address import Address
from acemq_amqp.errors import (
    AuthenticationRefused,
    CannotConnect,
)
from acemq_amqp.transports.pika import PikaTransport
from acemq_amqp.transports.pika.link import PikaLink
from tests.support.proxy import Proxy
from tests.support.rabbitmq import RabbitMQ
from tests.support.stands import Stand
from tests.transports.pika.stand import (
    Seen,
    connect,
    io_threads,
    run,
    soon,
)

pytestmark = pytest.mark.server


def test_the_broker_tells_who_it_is(link: PikaLink, rabbitmq: Stand, address: Address) -> None:
    assert link.broker.product == "RabbitMQ"
    assert ".".join(map(str, link.broker.version)) == rabbitmq.version
    assert link.broker.login == address.username


def test_the_broker_shows_the_name(own_rabbitmq: RabbitMQ, own_address: Address) -> None:
    link = connect(own_address, name="billing")
    assert "billing" in str(own_rabbitmq.list_connections("client_properties"))
    run(link.close(soon()))


def test_a_wrong_password_is_final_and_stays_secret(address: Address) -> None:
    seen = Seen()
    with pytest.raises(AuthenticationRefused, match="guest") as raised:
        connect(replace(address, password="s3cret"), seen)
    assert seen.lost.empty() and io_threads() == []
    assert "s3cret" not in f"{raised.value}{raised.value.__cause__!r}"
    assert raised.value.code == 403


def test_a_missing_vhost_is_final(address: Address) -> None:
    with pytest.raises(AuthenticationRefused, match="nowhere") as raised:
        connect(replace(address, vhost="nowhere"))
    assert raised.value.code == 530


def test_any_characters_may_stand_in_a_vhost(own_rabbitmq: RabbitMQ, own_address: Address) -> None:
    own_rabbitmq.add_vhost("a/b c%2F?#")
    run(connect(replace(own_address, vhost="a/b c%2F?#")).close(soon()))


def test_an_unknown_host_and_a_closed_port_cannot_be_connected_to(address: Address) -> None:
    with pytest.raises(CannotConnect, match=r"no-such-host\.invalid") as unknown:
        connect(replace(address, host="no-such-host.invalid"))
    with pytest.raises(CannotConnect, match="nothing listens there") as refused:
        connect(replace(address, port=1))
    for raised in (unknown, refused):
        assert not isinstance(raised.value, AuthenticationRefused)


def test_a_silent_peer_is_given_up_at_the_deadline(address: Address) -> None:
    with Proxy(address.port) as proxy:
        proxy.blackhole()
        silent = replace(address, port=proxy.port)
        with pytest.raises(CannotConnect, match="no answer in the time allowed"):
            run(
                PikaTransport().connect(
                    silent, name="tests", events=Seen().events, deadline=soon(0.3)
                )
            )
    assert io_threads() == []
