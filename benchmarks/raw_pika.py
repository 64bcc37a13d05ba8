"""pika's BlockingConnection at the same work, on one thread, as it wants it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pika
from pika.adapters.blocking_connection import BlockingChannel

from benchmarks.queues import Load
from benchmarks.workload import CONTENT_TYPE, PAYLOAD, PREFETCH, Lap, decoded, encoded


def publish(load: Load) -> float:
    """Publishes with confirms: each waits for its own before the next begins."""
    with _channel(load) as channel:
        channel.confirm_delivery()
        _send(channel, load.queue, load.warmup)
        started = time.perf_counter()
        _send(channel, load.queue, load.messages)
        return time.perf_counter() - started


def consume(load: Load) -> float:
    """The generator; each message is decoded and acknowledged."""
    seen: list[bool] = []
    lap = Lap(load.warmup, load.messages, lambda: seen.append(True))
    with _channel(load) as channel:
        channel.basic_qos(prefetch_count=PREFETCH)
        for method, _, body in channel.consume(load.queue):
            decoded(body)
            channel.basic_ack(method.delivery_tag)
            lap.hit()
            if seen:
                break
        channel.cancel()
    return lap.seconds


def _send(channel: BlockingChannel, queue: str, times: int) -> None:
    for _ in range(times):
        properties = pika.BasicProperties(content_type=CONTENT_TYPE, delivery_mode=2)
        channel.basic_publish("", queue, encoded(PAYLOAD), properties, mandatory=True)


@contextmanager
def _channel(load: Load) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(load.url))
    try:
        yield connection.channel()
    finally:
        connection.close()
