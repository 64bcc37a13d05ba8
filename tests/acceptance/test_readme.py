"""What the README shows is run, and what it names is there."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

import acemq_amqp
from tests.acceptance.programs import ROOT, catches, running_python, surroundings
from tests.support.eventually import eventually

README = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)

_ADDRESS = '"amqp://guest:guest@localhost/"'
_FAR_TOO_LONG = 60


def test_there_is_a_snippet_for_each_flavour() -> None:
    assert ["blocking" in snippet for snippet in SNIPPETS] == [False, True, True]


@pytest.mark.parametrize(
    ("snippet", "printed"),
    [*zip(SNIPPETS, ["handled 7\n", "handled 7\n", "HealthReport("], strict=True)],
    ids=["async", "blocking", "topology"],
)
def test_a_snippet_handles_its_message_and_ends_in_order(
    snippet: str, printed: str, tmp_path: Path
) -> None:
    assert snippet.count(_ADDRESS) == 1
    program = tmp_path / "snippet.py"
    program.write_text(snippet.replace(_ADDRESS, '"memory://readme"'))
    log = tmp_path / "printed"
    with running_python([str(program)], surroundings(None), log) as running:
        eventually(lambda: printed in log.read_text(), "what it prints")
        eventually(lambda: catches(running.pid, signal.SIGTERM), "run() taking signals")
        running.send_signal(signal.SIGTERM)
        assert running.wait(_FAR_TOO_LONG) == 0
    assert printed in log.read_text()
    assert "Traceback" not in log.read_text()


def test_every_make_target_it_names_is_there() -> None:
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    lines = re.findall(r"\bmake ((?:[a-z-]+ ?)+?)(?= {2}|`|$)", README, re.MULTILINE)
    named = {target for line in lines for target in line.split()}
    assert {"demo", "test", "lint", "types", "test-matrix"} <= named
    assert named <= made


def test_every_file_it_names_is_there() -> None:
    named = set(re.findall(r"\]\(([^):]+)\)|\b(examples/\w+\.py)", README))
    files = {linked or example for linked, example in named}
    assert len(files) >= 4
    assert [name for name in sorted(files) if not (ROOT / name).exists()] == []


def test_every_error_and_result_it_names_is_public() -> None:
    named = set(re.findall(r"`(Publish\w+|BatchError|FatalError)`", README))
    assert len(named) >= 5
    assert named <= set(acemq_amqp.__all__)
