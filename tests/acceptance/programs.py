"""Programs of this repository, run as a reader of it would run them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FAR_TOO_LONG = 120


def surroundings(url: str | None) -> dict[str, str]:
    """The environment of a program that is to use this address, or none."""
    kept = {name: value for name, value in os.environ.items() if name != "AMQP_URL"}
    given = {} if url is None else {"AMQP_URL": url}
    both = os.pathsep.join((str(ROOT), str(ROOT / "stores")))  # never another tree's stores
    return {**kept, **given, "PYTHONPATH": both, "PYTHONUNBUFFERED": "1"}


def run_python(
    arguments: Sequence[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Runs Python to its end; what it printed is kept."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_FAR_TOO_LONG,
        check=False,
    )


@contextmanager
def running_python(
    arguments: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs Python beside the test, which sees what it prints in a file; killed if it is left."""
    with log.open("wb") as printed:
        program = subprocess.Popen(
            [sys.executable, *arguments],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
    with program:
        try:
            yield program
        finally:
            program.kill()


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a program has a handler for a signal."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False
