"""What a person reads: what was measured on what, a row a pair, and how to read it."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from statistics import median

from benchmarks.measure import Comparison
from benchmarks.workload import PREFETCH, SIZE

_ROW = "{:<30}{:<24}{:>8}  {:<24}{:>8}  {:>6}  {:<14}{:>13}  {}"


def heading(broker: str, messages: int, rounds: int) -> str:
    """What is about to be measured, and the names of the columns."""
    turns = "one round" if rounds == 1 else f"the median of {rounds} rounds"
    return "\n".join(
        (
            f"RabbitMQ {broker}, Python {platform.python_version()}, aio-pika "
            f"{version('aio-pika')}, pika {version('pika')}, {os.cpu_count()} CPUs",
            f"Persistent messages of {SIZE} bytes, confirmed or acknowledged one by one, prefetch "
            f"{PREFETCH}; {turns} of {messages} messages at most",
            "",
            _ROW.format(
                *("", "ours", "msg/s", "theirs", "msg/s", "ratio", "from .. to", "aim", "")
            ).rstrip(),
        )
    )


def row(found: Comparison) -> str:
    """One pair."""
    pair, ratios = found.pair, found.ratios
    return _ROW.format(
        pair.name,
        pair.ours.name,
        f"{median(found.ours):.0f}",
        pair.theirs.name,
        f"{median(found.theirs):.0f}",
        f"{found.ratio:.2f}",
        f"{min(ratios):.2f} .. {max(ratios):.2f}",
        str(pair.aim),
        "met" if found.met else "not met",
    )


def closing() -> str:
    """How to read it."""
    return (
        "\nA ratio is ours over theirs, both taken in one round. This is a report and no test: it "
        "ends with 0.\nWhat is kept is kept in PostgreSQL, where each commit waits for the disk."
    )
