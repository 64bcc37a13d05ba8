"""``python -m acemq_amqp``: the commands that come with the package."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; its exit code. 2 is a command or address that cannot work."""
    options = _parser().parse_args(arguments)
    # As the program's own choice: without any handler Python prints warnings to stderr.
    logging.basicConfig(
        level=logging.INFO if options.verbose else logging.CRITICAL + 1,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    from acemq_amqp.demo import IN_MEMORY, run_demo

    try:
        return run_demo(os.environ.get("AMQP_URL") or IN_MEMORY)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m acemq_amqp", description="Commands of acemq-amqp."
    )
    commands = parser.add_subparsers(title="commands", dest="command", required=True)
    demo = commands.add_parser(
        "demo",
        help="the main job in both flavours, in memory or on AMQP_URL",
        description=(
            "Publishes, handles, retries, dead-letters and parks a few hundred orders, then plays "
            "claim check, idempotency, outbox and consumer group; async and blocking, in memory "
            "or on the RabbitMQ that AMQP_URL names; and checks the counts. "
            "Exit code: 0 as expected, 1 a count is wrong, 2 no broker."
        ),
    )
    demo.add_argument("-v", "--verbose", action="store_true", help="print the log too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
