"""A message that kills its process: it ends in the dead letters, and its neighbours are handled."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from acemq_amqp.eventlog import Lag
from tests.eventlog.groups.poison_reader import POISON
from tests.eventlog.groups.scene import Scene

pytestmark = pytest.mark.server


@pytest.mark.parametrize(
    ("place", "flavour", "lane"), [("postgresql", "async", ""), ("sqlite", "blocking", "Default")]
)
async def test_poison_ends_in_the_dead_letters(scene: Scene, lane: str, tmp_path: Path) -> None:
    queue = await scene.queue(count=6)
    handled = tmp_path / "handled"
    words = ["-m", "tests.eventlog.groups.poison_reader", scene.flavour, scene.url]
    words += [scene.database or "", scene.log, lane, str(handled)]
    codes: list[int | None] = []
    while not codes or codes[-1]:
        process = await asyncio.create_subprocess_exec(sys.executable, *words)
        codes.append(await process.wait())
        assert len(codes) < 12
    body, headers = await scene.dead_letter()
    assert body == b"%d" % POISON
    assert "its reader ended" in headers["x-acemq-error"]
    numbers = [int(line) for line in handled.read_text().split()]
    assert set(numbers) == {0, 1, 2, 4, 5}
    assert len(numbers) <= 5 + 2 * len(codes)
    assert await queue.lag() == Lag(0)
