"""Connections of the blocking transport: to the broker of this run, and to one for alarms."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from acemq_amqp.address import Address, parse_address
from acemq_amqp.transports.pika.link import PikaLink
from tests.support.rabbitmq import RabbitMQ
from tests.transports.pika.stand import (
    Seen,
    connect,
    declared,
    io_threads,
    run,
    soon,
)


@pytest.fixture
def address(amqp_url: str) -> Address:
    return parse_address(amqp_url)


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def link(address: Address, seen: Seen) -> Iterator[PikaLink]:
    link = connect(address, seen)
    yield link
    run(link.close(soon()))
    assert io_threads() == []


@pytest.fixture
def orders(link: PikaLink, names: Callable[[str], str]) -> str:
    return declared(link, names("orders"))


@pytest.fixture
def own_address(own_rabbitmq: RabbitMQ) -> Address:
    """Of a broker that the test may alarm."""
    return parse_address(own_rabbitmq.url)


@pytest.fixture
def own_link(own_address: Address, seen: Seen) -> Iterator[PikaLink]:
    link = connect(own_address, seen)
    yield link
    run(link.close(soon()))
    assert io_threads() == []
