"""The main job, shown: orders published, handled, retried, dead-lettered and parked.

``python -m acemq_amqp demo`` runs one scenario in both flavours, then four patterns (claim check,
idempotency, outbox, consumer group), then an event log: a replay, and windows. It compares what
happened with what should have, and prints a table of both. It needs no broker and installs nothing;
with an address of a RabbitMQ it does the same there, under names of its own that are gone
afterwards.
"""

from __future__ import annotations

import sys

from acemq_amqp.address import parse_address
from acemq_amqp.demo.async_part import play_async
from acemq_amqp.demo.async_patterns import play_patterns_async
from acemq_amqp.demo.blocking_part import play_blocking
from acemq_amqp.demo.blocking_patterns import play_patterns_blocking
from acemq_amqp.demo.findings import wrong_counts
from acemq_amqp.demo.log_part import play_log_async, play_log_blocking, wrong_log_counts
from acemq_amqp.demo.pattern_findings import wrong_pattern_counts
from acemq_amqp.demo.report import heading, report
from acemq_amqp.errors import AceMQError, ConfigurationError, ConnectionLost

#: Where the demo plays when no address is given.
IN_MEMORY = "memory://demo"

PASSED, WRONG, NO_BROKER = 0, 1, 2


def run_demo(url: str = IN_MEMORY) -> int:
    """Plays the scenario in both flavours, prints the report, and gives the exit code.

    :returns: 0 where every count is as expected, 1 where one is not or a call failed, 2 where
        the broker cannot be reached
    """
    try:
        address = parse_address(url)
        print(heading(address.shown, in_memory=address.scheme == "memory"), flush=True)
        played = (play_async(url), play_blocking(url))
        patterns = (play_patterns_async(url), play_patterns_blocking(url))
        logs = (play_log_async(url), play_log_blocking(url))
    except (ConnectionLost, ConfigurationError) as failure:
        return _told(failure, NO_BROKER)
    except AceMQError as failure:
        return _told(failure, WRONG)
    print(report(played, patterns, logs))
    wrong = [
        *map(wrong_counts, played),
        *map(wrong_pattern_counts, patterns),
        *map(wrong_log_counts, logs),
    ]
    return WRONG if any(wrong) else PASSED


def _told(failure: AceMQError, code: int) -> int:
    print(failure, file=sys.stderr)
    print("FAIL: the demo could not be played to its end.", file=sys.stderr)
    return code
