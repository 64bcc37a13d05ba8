"""Queries in processes that are killed: the totals are the input's all the same, none twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from acemq_amqp import Envelope, blocking
from acemq_amqp.eventlog.log import Log
from acemq_amqp.eventlog.records import lane_headers
from acemq_amqp.flavours.threads import drive
from acemq_stores import create_schema
from tests.eventlog.kills.victims import CYCLE, FLUSH, RELAY
from tests.eventlog.stories import messages
from tests.stores import databases
from tests.stores.conftest import database, postgres  # noqa: F401 - fixtures
from tests.support.eventually import eventually

pytestmark = pytest.mark.server

ROOT = Path(__file__).parents[3]
LANES = 5
STEPS = (*CYCLE, *FLUSH, *RELAY)


class Scene:
    """A log that is pushed to, and processes that run one query over it.

    :param retries: how often a message may end its process and be tried again; by default so often
        that none is held to be the cause
    """

    def __init__(
        self, url: str, where: str, names: Callable[[str], str], retries: int = 1000
    ) -> None:
        self.url, self.database, self.retries = url, where, retries
        self.source, self.totals = names("numbers"), names("sums")
        create_schema(where)
        rows = "id text, lane text, count integer, total integer"
        databases.run(where, f"CREATE TABLE ledger ({rows})")
        self.mq = blocking.connect(url)
        self._core: Any = self.mq._core
        self.log = Log(self._core, self.source)
        drive(self.log.ready())
        self.pushed = 0
        self._running: list[subprocess.Popen[bytes]] = []

    def push(self, count: int) -> None:
        """Appends numbers as if they had been pushed a while ago: their windows are over."""
        now = time.time() - 10
        numbers = range(self.pushed, self.pushed + count)
        headers = [lane_headers(f"lane-{n % LANES}", now + n % 3) for n in numbers]
        self.mq.publisher("", self.source).send_many(
            list(numbers), envelopes=[Envelope(headers=each) for each in headers]
        )
        self.pushed += count

    def begin(self, flavour: str, step: str = "") -> subprocess.Popen[bytes]:
        """Starts a process of the query, which dies at a step."""
        path = os.pathsep.join([str(ROOT), str(ROOT / "stores")])
        retries = str(self.retries)
        words = (flavour, self.url, self.database, self.source, self.totals, retries, step)
        program = subprocess.Popen(
            [sys.executable, "-m", "tests.eventlog.kills.victims", *words],
            env={**os.environ, "PYTHONPATH": path},
            cwd=ROOT,
        )
        self._running.append(program)
        return program

    def dies(self, flavour: str, step: str) -> None:
        """Lets a process come to a step."""
        assert self.begin(flavour, step).wait(60) == -signal.SIGKILL, step

    def ledger(self) -> list[tuple[str, str, int, int]]:
        """What the query wrote: id, lane, count, sum."""
        return cast(
            list[tuple[str, str, int, int]],
            databases.rows(self.database, "SELECT id, lane, count, total FROM ledger"),
        )

    def results(self) -> list[tuple[str, str, int, int]]:
        """What it sent: the same, with repeats."""
        if not self.mq.queue_exists(self.totals):
            return []
        found = []
        for each in drive(messages(self._core, self.totals)):
            assert each.window is not None
            data = json.loads(each.arrival.body)
            found.append((each.window.id, each.lane, data["count"], data["sum"]))
        return found

    def all_counted(self, within: float = 60.0) -> None:
        """Waits until the ledger and the log have everything, and sees that none is there twice."""
        eventually(lambda: self._count(self.ledger()) >= self.pushed, "all in the ledger", within)
        eventually(lambda: self._count(set(self.results())) >= self.pushed, "all sent", within)
        rows = self.ledger()
        assert max(Counter(id_ for id_, *_ in rows).values()) == 1
        assert sorted(set(self.results())) == sorted(rows)
        assert self._count(rows) == self.pushed
        assert sum(total for *_, total in rows) == sum(range(self.pushed))
        assert self.mq.message_count(f"{self.source}.dlq") == 0

    def _count(self, rows: Any) -> int:
        return sum(count for _, _, count, _ in rows)

    def close(self) -> None:
        for each in self._running:
            each.kill()
            each.wait()
        self.mq.close()


@pytest.fixture
def scene(
    amqp_url: str,
    database: str,  # noqa: F811
    names: Callable[[str], str],
) -> Iterator[Scene]:
    scene = Scene(amqp_url, database, names)
    yield scene
    scene.close()


def test_killed_at_every_step_one_after_the_other_it_counts_each_message_once(
    scene: Scene,
) -> None:
    at_every_step(scene, ["async", "blocking"])


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("flavours", [["async"], ["blocking"], ["blocking", "async"]])
def test_killed_at_every_step_in_each_flavour_it_counts_each_message_once(
    scene: Scene, flavours: list[str]
) -> None:
    at_every_step(scene, flavours)


def at_every_step(scene: Scene, flavours: list[str]) -> None:
    """Each process takes up what the one before it left, and dies at the next step."""
    for number, step in enumerate(STEPS):
        scene.push(23)
        scene.dies(flavours[number % len(flavours)], step)
    scene.begin(flavours[0])
    scene.all_counted()


def test_a_message_that_kills_its_process_becomes_a_dead_letter_and_others_count(
    amqp_url: str, tmp_path: Path, names: Callable[[str], str]
) -> None:
    scene = Scene(amqp_url, f"sqlite:///{tmp_path}/kills.db", names, retries=1)
    try:
        scene.push(3)
        poison = {**lane_headers("lane-0", time.time() - 10)}
        scene.mq.publisher("", scene.source).send("poison", envelope=Envelope(headers=poison))
        scene.push(3)
        for _ in range(3):  # in its batch; alone; alone again, which is the limit
            scene.dies("blocking", "")
        scene.begin("blocking")
        dlq = f"{scene.source}.dlq"
        eventually(lambda: scene.mq.message_count(dlq) == 1, "a dead letter")
        letter = scene.mq.pull(dlq)
        assert letter is not None and json.loads(letter.body) == "poison"
        assert "its reader ended" in str(letter.headers["x-acemq-error"])
        letter.ack()
        scene.all_counted()
    finally:
        scene.close()


# ------------------------------------------------------------ the long form


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_hundred_processes_killed_at_random_under_load_count_each_message_once(
    scene: Scene,
) -> None:
    chance, ended = random.Random(), threading.Event()
    pusher = threading.Thread(target=lambda: keep_pushing(scene, ended), daemon=True)
    pusher.start()
    programs = [scene.begin("async"), scene.begin("blocking")]
    for number in range(100):
        time.sleep(chance.uniform(0.2, 2.5))
        victim = programs.pop(chance.randrange(2))
        victim.kill()
        victim.wait()
        programs.append(scene.begin("async" if number % 2 else "blocking"))
    ended.set()
    pusher.join()
    scene.all_counted(within=600)
    print(f"{scene.pushed} messages, {len(scene.ledger())} windows")


def keep_pushing(scene: Scene, ended: threading.Event) -> None:
    while not ended.wait(0.1):
        scene.push(30)
