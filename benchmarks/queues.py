"""The queue of the benchmarks: made ready before a turn, and counted after it.

It is a durable classic queue. What is consumed was put there by neither contender's publisher, with
no headers, so that nobody is slowed by what the other one adds. Some jobs have a database beside
it, which is empty at each turn; some have neither.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pika
from pika.adapters.blocking_connection import BlockingChannel

from benchmarks import databases
from benchmarks.workload import BODY, CONTENT_TYPE


@dataclass(frozen=True, slots=True)
class Load:
    """How much, and where.

    :param messages: how many are timed
    :param database: PostgreSQL, for the jobs that want one
    """

    url: str
    queue: str
    messages: int
    database: str = ""

    @property
    def warmup(self) -> int:
        """How many go before them, untimed."""
        return max(1, self.messages // 10)

    @property
    def total(self) -> int:
        return self.warmup + self.messages


@dataclass(frozen=True, slots=True)
class Job:
    """What both sides of a pair have to do.

    :param prepare: makes the queue ready
    :param left: how many messages are in the queue when it is done; None: it has no queue
    :param stores: whether it wants a database
    """

    prepare: Callable[[Load], None]
    left: Callable[[Load], int] | None
    stores: bool = False

    def check(self, load: Load, who: str) -> None:
        """Whether the job was done.

        :raises RuntimeError: messages are missing, or were left
        """
        if self.left is None:
            return
        with _channel(load) as channel:
            found = channel.queue_declare(load.queue, passive=True).method.message_count
        if found != self.left(load):
            raise RuntimeError(
                f"acemq: {who} left {found} messages in {load.queue}, and {self.left(load)} were "
                "expected: what it measured counts for nothing"
            )


def _emptied(load: Load) -> None:
    with _channel(load) as channel:
        channel.queue_declare(load.queue, durable=True)
        channel.queue_purge(load.queue)


def _filled(load: Load) -> None:
    _emptied(load)
    with _channel(load) as channel:
        for _ in range(load.total - 1):
            _put(channel, load)
        channel.confirm_delivery()
        _put(channel, load)  # one channel keeps its order: with the last, all are there


def _put(channel: BlockingChannel, load: Load) -> None:
    properties = pika.BasicProperties(content_type=CONTENT_TYPE, delivery_mode=2)
    if load.database:
        properties.message_id = secrets.token_hex(16)
    channel.basic_publish("", load.queue, BODY, properties, mandatory=True)


def _both_emptied(load: Load) -> None:
    databases.emptied(load.database)
    _emptied(load)


def _filled_beside_database(load: Load) -> None:
    databases.emptied(load.database)
    _filled(load)


def removed(load: Load) -> None:
    """Deletes the queue."""
    with _channel(load) as channel:
        channel.queue_delete(load.queue)


@contextmanager
def _channel(load: Load) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(load.url))
    try:
        yield connection.channel()
    finally:
        connection.close()


PUBLISH = Job(prepare=_emptied, left=lambda load: load.total)
CONSUME = Job(prepare=_filled, left=lambda load: 0)
RELAY = Job(prepare=_both_emptied, left=lambda load: load.total, stores=True)
CONSUME_NOTED = Job(prepare=_filled_beside_database, left=lambda load: 0, stores=True)
LOG = Job(lambda load: databases.emptied(load.database), left=None, stores=True)
COMPUTE = Job(prepare=lambda load: None, left=None)
