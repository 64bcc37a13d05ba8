"""What the page on event logs shows is run."""

from __future__ import annotations

import re
from pathlib import Path

from tests.acceptance.programs import ROOT, run_python, surroundings

PAGE = (ROOT / "docs" / "event-logs.md").read_text()


def test_the_program_of_the_page_counts_its_sale(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    program = program.replace("amqp://guest:guest@localhost/", "memory://page")
    program = program.replace("sqlite:///app.db", f"sqlite:///{tmp_path}/app.db")
    ended = run_python(["-c", program], surroundings(None))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "state='running'" in ended.stdout and "events=1" in ended.stdout
