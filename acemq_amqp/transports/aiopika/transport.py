"""Making links: dial, let the driver log in, take over what passes by it."""

from __future__ import annotations

import asyncio
from typing import cast

import aio_pika
from aiormq.abc import AbstractConnection

from acemq_amqp.address import Address
from acemq_amqp.core.ports import Deadline, LinkEvents
from acemq_amqp.errors import BrokerTimeout
from acemq_amqp.security import Security
from acemq_amqp.transports.aiopika.calls import Calls
from acemq_amqp.transports.aiopika.dialling import DialledStream, dial
from acemq_amqp.transports.aiopika.driver_url import driver_url
from acemq_amqp.transports.aiopika.link import AioPikaLink
from acemq_amqp.transports.aiopika.quiet import quieten
from acemq_amqp.transports.refusals import no_connection
from acemq_amqp.transports.tls import AnsweredInTls

#: seconds given to the driver to clear away what a failed handshake left
_CLEARING = 5.0


class AioPikaTransport:
    """Connects with aio-pika, on the running event loop.

    :param security: the TLS settings of connections to an amqps address; by default the
        system's authorities, verified
    """

    def __init__(self, security: Security | None = None) -> None:
        self._security = security or Security()
        quieten()

    async def connect(
        self, address: Address, *, name: str, events: LinkEvents, deadline: Deadline
    ) -> AioPikaLink:
        """Opens one connection.

        :param name: what the broker shows the connection as
        :raises AuthenticationRefused: wrong login or vhost
        :raises CannotConnect: anything else
        :raises ConfigurationError: an address that the driver cannot carry
        """
        url = driver_url(address)
        try:
            dialled = await dial(address, self._security, deadline)
        except OSError as error:
            raise no_connection(address, None, error) from error
        connection = aio_pika.Connection(url, client_properties={"connection_name": name})
        connection.kwargs["transport_factory"] = dialled
        calls = Calls(asyncio.get_running_loop())
        await _log_in(connection, address, dialled, calls, deadline)
        driver = cast(AbstractConnection, connection.transport and connection.transport.connection)
        return AioPikaLink(address, connection, driver, dialled.stream, calls, events)


async def _log_in(
    connection: aio_pika.Connection,
    address: Address,
    dialled: DialledStream,
    calls: Calls,
    deadline: Deadline,
) -> None:
    stream = dialled.stream
    try:
        await calls.ask(connection.connect(), deadline, "the login")
    except BaseException as error:
        stream.abort()
        calls.spawn(connection.close())
        await calls.finished(_CLEARING)
        if isinstance(error, BrokerTimeout):
            error = TimeoutError()
        if stream.tap.speaks_tls:
            error = AnsweredInTls()
        if isinstance(error, Exception):
            raise no_connection(address, stream.farewell, error) from error
        raise
