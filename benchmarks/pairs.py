"""Which contenders meet, and the ratios that we aim at.

pika can only publish one by one with confirms, and takes ten times as long: it publishes a tenth as
many messages. Eight threads that send one by one publish half as many as a batch does.
"""

from __future__ import annotations

from benchmarks import ours_async, ours_blocking, raw_aiopika, raw_pika
from benchmarks.measure import Contender, Pair
from benchmarks.queues import CONSUME, PUBLISH

_PIKA = Contender("pika, one by one", raw_pika.publish, part=10)

PAIRS = (
    Pair(
        "async publish",
        PUBLISH,
        1.5,
        Contender("send, 1000 at once", ours_async.publish),
        Contender("aio-pika, 1000 at once", raw_aiopika.publish),
    ),
    Pair(
        "async consume",
        CONSUME,
        1.3,
        Contender("consume", ours_async.consume),
        Contender("aio-pika, callback", raw_aiopika.consume),
    ),
    Pair(
        "blocking publish, batch",
        PUBLISH,
        8.0,
        Contender("send_many", ours_blocking.publish_many),
        _PIKA,
    ),
    Pair(
        "blocking publish, threads",
        PUBLISH,
        4.0,
        Contender("send, 8 threads", ours_blocking.publish_from_threads, part=2),
        _PIKA,
    ),
    Pair(
        "blocking consume",
        CONSUME,
        1.0,
        Contender("consume", ours_blocking.consume),
        Contender("pika, generator", raw_pika.consume),
    ),
)
