"""The examples of event logs, run on RabbitMQ with SQLite and with PostgreSQL."""

from __future__ import annotations

import pytest

from tests.acceptance.programs import run_python, surroundings
from tests.stores.conftest import database, postgres  # noqa: F401 - fixtures

pytestmark = pytest.mark.server


@pytest.mark.parametrize(("program", "checks"), [("replay", 22), ("streaming", 18)])
def test_it_passes_every_check_in_both_flavours(
    amqp_url: str,
    database: str,  # noqa: F811
    program: str,
    checks: int,
) -> None:
    here = {**surroundings(amqp_url), "LOG_STORE": database}
    ended = run_python([f"examples/{program}.py"], here)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[-1] == f"PASS: {checks} checks"
