"""The outbox example, killed again and again and started again: its sums come out the same."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.programs import run_python, running_python, surroundings
from tests.support.eventually import eventually

pytestmark = pytest.mark.server

PROGRAM = "examples/outbox_orders.py"


def shipped(folder: Path, flavour: str) -> int:
    """Orders that were shipped so far."""
    database = folder / f"{flavour}.db"
    if not database.exists():
        return 0
    with closing(sqlite3.connect(database, timeout=30)) as look:
        try:
            count: int = look.execute("SELECT count(*) FROM shipped").fetchone()[0]
        except sqlite3.OperationalError:  # not created yet
            return 0
        return count


@pytest.mark.parametrize("flavour", ["async", "blocking"])
def test_killed_and_started_again_it_ships_each_order_once(
    flavour: str, amqp_url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "orders"
    here = {**surroundings(amqp_url), "ORDERS": str(folder)}
    for reached in (3, 20, 45):
        with running_python([PROGRAM, flavour], here, tmp_path / "printed") as program:
            eventually(lambda reached=reached: shipped(folder, flavour) >= reached, "some shipped")  # type: ignore[misc]
            program.kill()
    ended = run_python([PROGRAM, flavour], here)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [
        f"{flavour}: 100 orders, 10 declined, 90 paid",
        f"{flavour}: 90 shipped, 0 of them twice",
        "PASS",
    ]
    assert list(folder.iterdir()) == []


def test_it_passes_in_both_flavours(amqp_url: str, tmp_path: Path) -> None:
    here = {**surroundings(amqp_url), "ORDERS": str(tmp_path / "orders")}
    ended = run_python([PROGRAM], here)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[-1] == "PASS"
