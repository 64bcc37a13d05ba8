"""Payloads of records, by the connection's codec."""

from __future__ import annotations

from typing import Any

from acemq_amqp.core.connection import Connection
from acemq_amqp.errors import DecodeError, FatalError, MessageError, StoreError
from acemq_amqp.eventlog.records import LogRecord


class Decoding:
    """Decodes bodies, waiting where the codec has to."""

    def __init__(self, connection: Connection) -> None:
        self._codec = connection.codec
        self._waiting = connection.work.waiting(connection.codec)

    async def payload(self, record: LogRecord) -> Any:
        """The payload.

        :raises MessageError: the body cannot be read, ever
        :raises StoreError: what the codec needs cannot be reached now
        """
        arrival = record.arrival
        content_type = arrival.properties.content_type
        try:
            if self._waiting is None:
                return self._codec.decode(arrival.body, content_type)
            return await self._waiting.decode(arrival.body, content_type)
        except (DecodeError, FatalError, StoreError):
            raise
        except Exception as failure:
            raise undecodable(record, failure) from failure


def undecodable(record: LogRecord, failure: BaseException) -> MessageError:
    """The error of a body that cannot be read."""
    return DecodeError(
        f"acemq: offset {record.offset} of stream {record.stream!r} cannot be decoded: "
        f"{type(failure).__name__}: {failure}"
    )
