"""Logs as the cases use them: what stands in a stream, and who pushes meanwhile."""

from __future__ import annotations

from acemq_amqp.core.connection import Connection
from acemq_amqp.eventlog.records import LogRecord, record_of
from tests.contract.streams import read


async def records(mq: Connection, stream: str) -> list[LogRecord]:
    """Everything in a stream, marks too."""
    ends = await mq.ends(stream)
    return [record_of(stream, each) for each in await read(mq, stream, 1 + ends.tail - ends.oldest)]


async def messages(mq: Connection, stream: str) -> list[LogRecord]:
    """Everything in a stream that a user pushed."""
    return [record for record in await records(mq, stream) if not record.mark]


def bodies(found: list[LogRecord]) -> list[bytes]:
    return [record.arrival.body for record in found]
