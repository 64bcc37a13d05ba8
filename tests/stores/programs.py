"""Programs that tests run beside each other, several at once, on one database.

Called as ``python -m tests.stores.programs NAME ARGUMENTS``; what they found is their last line.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_FAR_TOO_LONG = 240


def begin(name: str, *arguments: object) -> subprocess.Popen[str]:
    """Starts a program."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "stores")])
    return subprocess.Popen(
        [sys.executable, "-m", "tests.stores.programs", name, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def together(programs: Iterable[subprocess.Popen[str]]) -> list[Any]:
    """Lets programs go at the same moment, and gives what each found."""
    running = list(programs)
    for program in running:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
    for program in running:
        assert program.stdin is not None
        program.stdin.write("go\n")
        program.stdin.flush()
    found = [program.communicate(timeout=_FAR_TOO_LONG)[0] for program in running]
    assert [program.returncode for program in running] == [0] * len(running)
    return [json.loads(each.splitlines()[-1]) for each in found]


def wait_for_the_others() -> None:
    """Says that all is imported, and waits for the word to go."""
    print("ready", flush=True)
    sys.stdin.readline()


# ------------------------------------------------------------ the programs


def claim(database: str, holder: str, ids: str) -> list[str]:
    """Claims and confirms ids in an order of its own; gives those it was told to handle."""
    from acemq_amqp.patterns import Claim
    from acemq_amqp.patterns.waiting import driven
    from acemq_stores import SqlIdempotencyStore

    wait_for_the_others()
    store = SqlIdempotencyStore(database)
    wanted = [f"id-{number}" for number in range(int(ids))]
    random.shuffle(wanted)
    handled = []
    for each in wanted:
        if driven(store.claim(each, holder)) is Claim.CLAIMED:
            assert driven(store.confirm(each, holder))
            handled.append(each)
    store.close()
    return handled


def create(database: str) -> str:
    """Creates the tables."""
    from acemq_stores import create_schema

    wait_for_the_others()
    create_schema(database)
    return "created"


def write(database: str, writer: str, rows: str, keys: str) -> int:
    """Writes outbox records, one transaction each, and notes beside them in which order."""
    from acemq_amqp.patterns import OutboxRecord
    from acemq_stores import SqlOutboxStore
    from tests.stores.databases import opened

    wait_for_the_others()
    store = SqlOutboxStore(database)
    placeholder = "?" if database.startswith("sqlite") else "%s"
    with closing(opened(database)) as connection:
        for number in range(int(rows)):
            key = f"key-{random.randrange(int(keys))}"
            id_ = f"{writer}-{number}"
            record = OutboxRecord(id_, "", "q", b"", "", b"", key)
            if placeholder == "?":
                connection.execute("BEGIN IMMEDIATE")
            store.add(record, connection=connection)
            # While the key is locked this counter is raised by one transaction at a time: what it
            # says is the order of commits.
            connection.execute(f"UPDATE counters SET n = n + 1 WHERE k = {placeholder}", (key,))
            connection.execute(
                f"INSERT INTO journal SELECT k, n, {placeholder} FROM counters "
                f"WHERE k = {placeholder}",
                (id_, key),
            )
            connection.commit()
    store.close()
    return int(rows)


PROGRAMS = {each.__name__: each for each in (claim, create, write)}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]](*sys.argv[2:])), flush=True)
