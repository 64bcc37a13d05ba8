"""Processes that are killed at every step: afterwards each effect is there, and none is lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acemq_amqp import Envelope, Topology, blocking
from acemq_amqp.patterns import record
from acemq_amqp.patterns.waiting import driven
from acemq_stores import SqlOutboxStore, create_schema
from tests.stores import databases
from tests.stores.conftest import database, postgres  # noqa: F401 - fixtures
from tests.support.eventually import eventually

pytestmark = pytest.mark.server

ROOT = Path(__file__).parents[2]
MESSAGES = 12
_LONG = [pytest.mark.soak, pytest.mark.timeout(1800)]


class Scene:
    """A queue, a database, and programs that work on them."""

    def __init__(self, url: str, where: str, queue: str, folder: Path) -> None:
        self.url, self.database, self.queue, self.folder = url, where, queue, folder
        create_schema(where)
        databases.run(where, "CREATE TABLE effects (id text)")
        self.mq = blocking.connect(url)
        self.mq.declare(Topology().queue(queue, dead_letter=True))

    def send(self, count: int) -> None:
        publisher = self.mq.publisher(routing_key=self.queue)
        for number in range(count):
            publisher.send(number, envelope=Envelope(id=f"id-{number:04}"))

    def begin(self, program: str, flavour: str, step: str = "") -> subprocess.Popen[bytes]:
        """Starts a program that dies at a step, unless one has before."""
        path = os.pathsep.join([str(ROOT), str(ROOT / "stores")])
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.patterns.victims", program, flavour, self.url),
                *(self.database, self.queue, step, str(self.folder / f"died-{step}")),
            ],
            env={**os.environ, "PYTHONPATH": path},
            cwd=ROOT,
        )

    @contextmanager
    def killed_and_begun_again(self, program: str, flavour: str, step: str) -> Iterator[None]:
        """Lets a program die at a step, and another go on while the context is open."""
        assert self.begin(program, flavour, step).wait(60) == -signal.SIGKILL
        second = self.begin(program, flavour, step)
        try:
            yield
        finally:
            second.kill()
            second.wait()

    def effects(self) -> Counter[str]:
        return Counter(id_ for (id_,) in databases.rows(self.database, "SELECT id FROM effects"))

    def all_acknowledged(self, effects: int) -> None:
        """Waits until each message had its effect, and nothing is left in the queue or held."""
        eventually(lambda: len(self.effects()) == effects, f"{effects} messages handled")

    def left(self) -> int:
        return self.mq.message_count(self.queue)


@pytest.fixture
def scene(
    amqp_url: str,
    database: str,  # noqa: F811
    tmp_path: Path,
    names: object,
) -> Iterator[Scene]:
    scene = Scene(amqp_url, database, names("orders"), tmp_path)  # type: ignore[operator]
    yield scene
    scene.mq.close()


EACH_ONCE = Counter({f"id-{number:04}": 1 for number in range(MESSAGES)})


@pytest.mark.parametrize("flavour", ["async", "blocking"])
@pytest.mark.parametrize("step", ["claimed", "begun", "handled", "confirmed", "answered"])
def test_an_idempotent_consumer_killed_at_any_step_loses_none(
    scene: Scene, flavour: str, step: str
) -> None:
    scene.send(MESSAGES)
    with scene.killed_and_begun_again("idempotent", flavour, step):
        scene.all_acknowledged(MESSAGES)
        eventually(lambda: scene.left() == 0, "an empty queue")
    doubled = {id_: count for id_, count in scene.effects().items() if count > 1}
    # Between the effect and its confirm nobody can tell that it took place; four run at once.
    assert len(doubled) <= 4 and set(doubled.values()) <= {2}
    if step in ("claimed", "begun"):
        return
    confirmed = databases.rows(scene.database, "SELECT count(*) FROM acemq_idempotency")
    assert confirmed == [(MESSAGES,)]


@pytest.mark.parametrize("flavour", ["async", "blocking"])
@pytest.mark.parametrize("step", ["claimed", "handled", "committed"])
def test_a_transactional_consumer_killed_at_any_step_has_each_effect_once(
    scene: Scene, flavour: str, step: str
) -> None:
    scene.send(MESSAGES)
    with scene.killed_and_begun_again("inbox", flavour, step):
        scene.all_acknowledged(MESSAGES)
        eventually(lambda: scene.left() == 0, "an empty queue")
    assert scene.effects() == EACH_ONCE


def published(scene: Scene) -> list[tuple[str, int]]:
    """What is in the queue: for each message its key and number, without repeats of an id."""
    seen: dict[str, tuple[str, int]] = {}
    while (delivery := scene.mq.pull(scene.queue)) is not None:
        delivery.ack()
        key, number = json.loads(delivery.body)
        seen.setdefault(str(delivery.properties.message_id), (key, number))
    return list(seen.values())


def add_records(scene: Scene, count: int) -> list[tuple[str, int]]:
    made = [(f"key-{number % 5}" if number % 3 else "", number) for number in range(count)]
    store = SqlOutboxStore(scene.database)
    driven(_written(store, scene, made))
    store.close()
    return made


async def _written(store: SqlOutboxStore, scene: Scene, made: list[tuple[str, int]]) -> None:
    await store.add_many(
        [record(scene.mq, "", scene.queue, [key, number], ordering_key=key) for key, number in made]
    )


def in_order(found: list[tuple[str, int]]) -> bool:
    keys = {key for key, _ in found} - {""}
    numbers = [[number for its, number in found if its == key] for key in keys]
    return all(each == sorted(each) for each in numbers)


def waiting(scene: Scene) -> int:
    found = databases.rows(scene.database, "SELECT count(*) FROM acemq_outbox WHERE state = 0")
    return int(found[0][0])


@pytest.mark.parametrize("flavour", ["async", "blocking"])
@pytest.mark.parametrize("step", ["claimed", "published", "marked"])
def test_a_relay_killed_at_any_step_publishes_each_record_in_order(
    scene: Scene, flavour: str, step: str
) -> None:
    made = add_records(scene, 60)
    with scene.killed_and_begun_again("relay", flavour, step):
        eventually(lambda: waiting(scene) == 0, "all marked")
    found = published(scene)
    assert sorted(found) == sorted(made)
    assert in_order(found)


# ------------------------------------------------------------ four relays in four processes


def relayed(scene: Scene, rows: int, *, stopping: bool) -> list[tuple[str, int]]:
    """Lets four relays publish rows of 200 keys; one of them sleeps past its lease meanwhile.

    It sleeps between a confirm and its mark: in a transaction it would keep the others from SQLite.
    """
    made = [(f"key-{number % 200}", number) for number in range(rows)]
    store = SqlOutboxStore(scene.database)
    driven(_written(store, scene, made))
    store.close()
    program = "relay" if stopping else "steady-relay"
    relays = []
    try:
        if stopping:
            relays.append(scene.begin("sleeping-relay", "blocking", "published"))
            eventually(lambda: not _awake(relays[0].pid), "one asleep")
        flavours = ("blocking", "async", "blocking", "async")[len(relays) :]
        relays += [scene.begin(program, flavour) for flavour in flavours]
        eventually(lambda: waiting(scene) == 0, "all marked", within=600)
        relays[0].send_signal(signal.SIGCONT)
        marked = "SELECT id, settled FROM acemq_outbox ORDER BY id"
        before = databases.rows(scene.database, marked)
        eventually(lambda: _awake(relays[0].pid), "the sleeper awake")
        assert databases.rows(scene.database, marked) == before
    finally:
        for each in relays:
            each.kill()
            each.wait()
    return made


def _awake(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T"


@pytest.mark.parametrize("rows", [800, pytest.param(20_000, marks=_LONG)])
def test_four_relays_double_nothing_and_keep_every_key_in_order(scene: Scene, rows: int) -> None:
    made = relayed(scene, rows, stopping=False)
    assert scene.left() == rows
    found = published(scene)
    assert sorted(found) == sorted(made) and in_order(found)


@pytest.mark.parametrize("rows", [800, pytest.param(20_000, marks=_LONG)])
def test_a_relay_that_slept_past_its_lease_loses_nothing_and_marks_nothing(
    scene: Scene, rows: int
) -> None:
    made = relayed(scene, rows, stopping=True)
    found = published(scene)
    assert sorted(found) == sorted(made) and in_order(found)


# ------------------------------------------------------------ the long form


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("flavour", ["async", "blocking"])
def test_relays_and_consumers_killed_at_random_lose_nothing(scene: Scene, flavour: str) -> None:
    made = add_records(scene, 3000)
    programs = [scene.begin("relay", flavour) for _ in range(2)]
    for _ in range(30):
        before = waiting(scene)
        eventually(lambda before=before: waiting(scene) < before or not before, "some marked")  # type: ignore[misc]
        victim = random.randrange(len(programs))
        programs[victim].kill()
        programs[victim].wait()
        programs[victim] = scene.begin("relay", flavour)
    eventually(lambda: waiting(scene) == 0, "all marked", within=300)
    for program in programs:
        program.kill()
        program.wait()
    found = published(scene)
    assert sorted(found) == sorted(made)
    assert in_order(found)
