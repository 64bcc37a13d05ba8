"""Our blocking flavour at work, as its users write it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from acemq_amqp import blocking
from benchmarks.queues import Load
from benchmarks.workload import PAYLOAD, PREFETCH, WINDOW, Lap

THREADS = 8


def publish_many(load: Load) -> float:
    """One call for all messages, which returns with the last confirm."""
    with blocking.connect(load.url, max_outstanding=WINDOW) as mq:
        publisher = mq.publisher(routing_key=load.queue)
        publisher.send_many([PAYLOAD] * load.warmup)
        started = time.perf_counter()
        publisher.send_many([PAYLOAD] * load.messages)
        return time.perf_counter() - started


def publish_from_threads(load: Load) -> float:
    """Eight threads on one connection; each sends one message after the other."""
    with blocking.connect(load.url) as mq, ThreadPoolExecutor(THREADS) as threads:
        publisher = mq.publisher(routing_key=load.queue)

        def send(times: int) -> None:
            numbers = iter(range(times))
            # The threads share the iterator: a range's is one step, so no number is had twice.
            for each in [threads.submit(work, numbers) for _ in range(THREADS)]:
                each.result()

        def work(numbers: Iterator[int]) -> None:
            for _ in numbers:
                publisher.send(PAYLOAD)

        send(load.warmup)
        started = time.perf_counter()
        send(load.messages)
        return time.perf_counter() - started


def consume(load: Load) -> float:
    """A handler that does nothing; the toolkit decodes and acknowledges."""
    done = threading.Event()
    lap = Lap(load.warmup, load.messages, done.set)

    def handle(message: blocking.Message) -> None:
        lap.hit()

    with blocking.connect(load.url) as mq:
        # declare=False: nothing fails here, so no dead-letter queue has to be there and go again
        mq.consume(load.queue, handle, prefetch=PREFETCH, declare=False)
        done.wait()
    return lap.seconds
