"""The examples of event logs, run on RabbitMQ with SQLite and with PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.programs import run_python, surroundings
from tests.stores.conftest import postgres, postgres_database  # noqa: F401 - fixtures

pytestmark = pytest.mark.server


@pytest.mark.parametrize(("program", "checks"), [("replay", 22), ("streaming", 18)])
def test_it_passes_every_check_in_both_flavours(
    amqp_url: str, tmp_path: Path, program: str, checks: int
) -> None:
    passes(program, checks, amqp_url, f"sqlite:///{tmp_path}/log.db")


def test_windows_pass_on_postgresql_too(
    amqp_url: str,
    postgres_database: str,  # noqa: F811
) -> None:
    passes("streaming", 18, amqp_url, postgres_database)


def passes(program: str, checks: int, url: str, store: str) -> None:
    here = {**surroundings(url), "LOG_STORE": store}
    ended = run_python([f"examples/{program}.py"], here)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[-1] == f"PASS: {checks} checks"
