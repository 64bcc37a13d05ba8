"""Opening the socket ourselves, before the driver gets it.

So an address that does not answer is one clear error and nothing in the driver's log,
and the tap stands on the stream from its first byte.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiormq.connection import TransportFactory
from yarl import URL

from acemq_amqp.address import Address
from acemq_amqp.core.ports import Deadline
from acemq_amqp.security import Security
from acemq_amqp.transports.aiopika.calls import seconds_left
from acemq_amqp.transports.aiopika.tap_stream import TapStream

#: bytes of the conversation that may wait for the driver's reader
_READ_AHEAD = 1024 * 1024


class DialledStream(TransportFactory):
    """A connected stream as the driver's source of one: given out once."""

    def __init__(
        self, stream: TapStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.stream = stream
        self._reader = reader
        self._writer = writer

    async def create(
        self, url: URL, **kwargs: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return self._reader, self._writer


async def dial(address: Address, security: Security, deadline: Deadline) -> DialledStream:
    """Connects, with TLS where the address says so.

    :raises OSError: no connection; TimeoutError at the deadline
    :raises ConfigurationError: files of the TLS settings that are gone or broken
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_READ_AHEAD, loop=loop)
    stream = TapStream(reader, loop)
    context = security.context() if address.secure else None
    name = security.name_for(address.host) if address.secure else None
    async with asyncio.timeout(seconds_left(deadline)):
        transport, _ = await loop.create_connection(
            lambda: stream, address.host, address.port, ssl=context, server_hostname=name
        )
    return DialledStream(stream, reader, asyncio.StreamWriter(transport, stream, reader, loop))
