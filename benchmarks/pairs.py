"""Which contenders meet, and what we aim at.

pika can only publish one by one with confirms, and takes ten times as long: it publishes a tenth as
many messages. Eight threads that send one by one publish half as many as a batch does. A relay that
commits each row by itself gets a tenth of the rows.
"""

from __future__ import annotations

from benchmarks import (
    claim_checks,
    idempotent,
    log_groups,
    ours_async,
    ours_blocking,
    plain_relay,
    raw_aiopika,
    raw_pika,
    relays,
    windows,
)
from benchmarks.measure import Aim, Contender, Pair
from benchmarks.queues import COMPUTE, CONSUME, CONSUME_NOTED, LOG, PUBLISH, RELAY

_PIKA = Contender("pika, one by one", raw_pika.publish, part=10)
_PLAIN_RELAY = Contender("row by row", plain_relay.relay, part=10)
_4_KB = 4096
_256_B = 256

PAIRS = (
    Pair(
        "async publish",
        PUBLISH,
        Aim(ratio=1.5),
        Contender("send, 1000 at once", ours_async.publish),
        Contender("aio-pika, 1000 at once", raw_aiopika.publish),
    ),
    Pair(
        "async consume",
        CONSUME,
        Aim(ratio=1.3),
        Contender("consume", ours_async.consume),
        Contender("aio-pika, callback", raw_aiopika.consume),
    ),
    Pair(
        "blocking publish, batch",
        PUBLISH,
        Aim(ratio=8.0),
        Contender("send_many", ours_blocking.publish_many),
        _PIKA,
    ),
    Pair(
        "blocking publish, threads",
        PUBLISH,
        Aim(ratio=4.0),
        Contender("send, 8 threads", ours_blocking.publish_from_threads, part=2),
        _PIKA,
    ),
    Pair(
        "blocking consume",
        CONSUME,
        Aim(ratio=1.0),
        Contender("consume", ours_blocking.consume),
        Contender("pika, generator", raw_pika.consume),
    ),
    Pair(
        "relay, 1",
        RELAY,
        Aim(ratio=5.0, rate=3000),
        Contender("OutboxRelay", relays.one),
        _PLAIN_RELAY,
    ),
    Pair(
        "relay, 1 blocking",
        RELAY,
        Aim(ratio=5.0),
        Contender("OutboxRelay", relays.one_blocking),
        _PLAIN_RELAY,
    ),
    Pair("relay, 2", RELAY, Aim(), Contender("OutboxRelay", relays.two), _PLAIN_RELAY),
    Pair("relay, 4", RELAY, Aim(), Contender("OutboxRelay", relays.four), _PLAIN_RELAY),
    Pair(
        "idempotent async consume",
        CONSUME_NOTED,
        Aim(rate=1500),
        Contender("idempotent, 16 at once", idempotent.noted),
        Contender("consume, 16 at once", idempotent.plain),
    ),
    Pair(
        "idempotent blocking consume",
        CONSUME_NOTED,
        Aim(rate=1500),
        Contender("idempotent, 16 at once", idempotent.noted_blocking),
        Contender("consume, 16 at once", idempotent.plain_blocking),
    ),
    Pair(
        "async log through a group",
        LOG,
        Aim(ratio=0.7),
        Contender("each, PostgreSQL", log_groups.grouped),
        Contender("aio-pika, callback", log_groups.bare_aiopika),
    ),
    Pair(
        "blocking log through a group",
        LOG,
        Aim(ratio=0.7),
        Contender("each, PostgreSQL", log_groups.grouped_blocking),
        Contender("pika, callback", log_groups.bare_pika),
    ),
    Pair(
        "windows, a second long",
        LOG,
        Aim(rate=3000),
        Contender("200 close a second", windows.seconds_long),
        Contender("10 open, none closes", windows.alone),
    ),
    Pair(
        "windows, 100,000 open",
        LOG,
        Aim(ratio=0.87),
        Contender("10 hot, others open", windows.beside_many),
        Contender("10 hot alone", windows.alone),
    ),
    Pair(
        "claim check inline, 4 kB",
        COMPUTE,
        Aim(ratio=0.97),
        Contender("encode, decode", claim_checks.inline(_4_KB)),
        Contender("JsonCodec alone", claim_checks.bare(_4_KB)),
    ),
    Pair(
        "claim check inline, 256 B",
        COMPUTE,
        Aim(extra=1e-6),  # half a microsecond to encode, half to decode
        Contender("encode, decode", claim_checks.inline(_256_B)),
        Contender("JsonCodec alone", claim_checks.bare(_256_B)),
    ),
    Pair(
        "claim check stored, 64 kB",
        COMPUTE,
        Aim(),
        Contender("encode, put, get, decode", claim_checks.stored, part=50),
        Contender("JsonCodec alone", claim_checks.bare_large, part=5),
    ),
)
