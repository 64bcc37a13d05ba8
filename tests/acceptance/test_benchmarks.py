"""The benchmarks, run with so few messages that their numbers say nothing: the table is there."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from benchmarks.measure import Aim, Comparison
from benchmarks.pairs import PAIRS
from benchmarks.table import row
from tests.acceptance.programs import run_python, surroundings
from tests.support.stands import Stand

FEW = ("--messages", "200", "--rounds", "1")


@pytest.mark.server
def test_it_prints_a_row_for_every_pair_and_leaves_no_queue(
    rabbitmq: Stand, amqp_url: str, vhost: str
) -> None:
    ended = run_python(["-m", "benchmarks", *FEW], surroundings(amqp_url))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"RabbitMQ {rabbitmq.version}, Python " in ended.stdout
    for pair in PAIRS:
        (line,) = re.findall(f"^{re.escape(pair.name)}  .*", ended.stdout, re.MULTILINE)
        assert re.search(r" \d+\.\d\d  .* (not )?met$", line), line
    if rabbitmq.control is not None:
        assert "acemq-bench." not in rabbitmq.control.ctl("list_queues", "-p", vhost, "name")


def test_a_row_has_the_medians_and_the_median_of_the_ratios() -> None:
    pair = next(pair for pair in PAIRS if pair.aim == Aim(ratio=1.5))
    found = Comparison(pair, ours=(1000.0, 3000.0, 2000.0), theirs=(1000.0, 1000.0, 4000.0))
    cells = row(found).removeprefix(pair.name)
    assert re.findall(r" (\d+) ", cells.replace("1000 at once", "")) == ["2000", "1000"]
    assert " 1.00  0.50 .. 3.00 " in cells
    assert cells.endswith("  1.5  not met")


@pytest.mark.parametrize(
    ("aim", "ours", "met"),
    [
        (Aim(), 0.1, True),
        (Aim(ratio=1.5), 3.0, True),
        (Aim(ratio=1.5), 2.9, False),
        (Aim(rate=3.0), 3.0, True),
        (Aim(rate=3.1), 3.0, False),
        (Aim(ratio=1.5, rate=3.1), 3.0, False),
        (Aim(extra=0.5), 1.0, True),
        (Aim(extra=0.4), 1.0, False),
    ],
)
def test_an_aim_is_met_where_all_of_it_was_reached(aim: Aim, ours: float, met: bool) -> None:
    found = row(Comparison(replace(PAIRS[0], aim=aim), ours=(ours,), theirs=(2.0,)))
    assert found.endswith("  met" if met else "  not met")
    assert f" {aim}  " in found
