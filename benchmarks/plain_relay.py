"""The relay that people write first: one row, one publish with its confirm, one commit."""

from __future__ import annotations

import time

import pika
import psycopg

from benchmarks.queues import Load
from benchmarks.workload import BODY, CONTENT_TYPE

_TABLE = """
CREATE TABLE plain_outbox (
    seq bigserial PRIMARY KEY, routing_key text NOT NULL, body bytea NOT NULL, sent timestamptz)"""
_INDEX = "CREATE INDEX plain_waiting ON plain_outbox (seq) WHERE sent IS NULL"
_FILL = """
INSERT INTO plain_outbox (routing_key, body) SELECT %s, %s FROM generate_series(1, %s)"""
_NEXT = """
SELECT seq, routing_key, body FROM plain_outbox WHERE sent IS NULL
ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED"""
_MARK = "UPDATE plain_outbox SET sent = now() WHERE seq = %s"


def relay(load: Load) -> float:
    """One relay, on pika and psycopg."""
    broker = pika.BlockingConnection(pika.URLParameters(load.url))
    channel = broker.channel()
    channel.confirm_delivery()
    properties = pika.BasicProperties(content_type=CONTENT_TYPE, delivery_mode=2)
    with psycopg.connect(load.database) as database:
        for statement in ("DROP TABLE IF EXISTS plain_outbox", _TABLE, _INDEX):
            database.execute(statement)
        database.execute(_FILL, (load.queue, BODY, load.total))
        database.commit()
        started = time.perf_counter()
        while (row := database.execute(_NEXT).fetchone()) is not None:
            seq, key, body = row
            channel.basic_publish("", key, body, properties, mandatory=True)
            database.execute(_MARK, (seq,))
            database.commit()
        seconds = time.perf_counter() - started
    broker.close()
    return seconds * load.messages / load.total
