"""Prints the table: ``python -m benchmarks [--messages N] [--rounds N] [--only WORDS]``.

The broker is the one at ``AMQP_URL``, else the one that the tests would use: a private node as a
rule, which is started for this run and gone after it.
"""

from __future__ import annotations

import argparse
import os
import secrets
from collections.abc import Sequence

from benchmarks.databases import database
from benchmarks.measure import Pair, compare
from benchmarks.pairs import PAIRS
from benchmarks.queues import Load, removed
from benchmarks.table import closing, heading, row
from tests.support.stands import GivenAddress, Stand, find_stand


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures the pairs and prints one row for each as it is done."""
    options = _options(arguments)
    stand = _stand()
    queue = f"acemq-bench.{secrets.token_hex(4)}"
    try:
        print(heading(stand.version, options.messages, options.rounds), flush=True)
        with database(any(pair.job.stores for pair in options.pairs)) as address:
            for pair in options.pairs:
                load = Load(
                    stand.url_of("/"), queue, options.messages, address if pair.job.stores else ""
                )
                print(row(compare(pair, load, options.rounds)), flush=True)
        print(closing())
    finally:
        removed(Load(stand.url_of("/"), queue, 0))
        stand.close()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="speeds beside raw aio-pika and raw pika"
    )
    parser.add_argument(
        "--messages", type=_positive, default=10_000, help="in a round, at most (%(default)s)"
    )
    parser.add_argument(
        "--rounds", type=_positive, default=5, help="of which the median counts (%(default)s)"
    )
    parser.add_argument(
        "--only",
        dest="pairs",
        type=_pairs_with,
        default=PAIRS,
        metavar="WORDS",
        help="the pairs with these words in their name",
    )
    return parser.parse_args(arguments)


def _pairs_with(words: str) -> Sequence[Pair]:
    pairs = [pair for pair in PAIRS if words in pair.name]
    if not pairs:
        names = "; ".join(pair.name for pair in PAIRS)
        raise argparse.ArgumentTypeError(f"no pair has {words!r} in its name; there are: {names}")
    return pairs


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("give 1 or more")
    return number


def _stand() -> Stand:
    given = os.environ.get("AMQP_URL")
    return GivenAddress(given) if given else find_stand()


if __name__ == "__main__":
    main()
