"""What the pages of docs/ show is run, and what they list is what the code has."""

from __future__ import annotations

import ast
import dataclasses
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
import typer

import acemq_amqp
from acemq_amqp import CannotConnect, HealthReport
from acemq_amqp.cli.app import app
from tests.acceptance.programs import ROOT, catches, run_python, running_python, surroundings
from tests.support.eventually import eventually

DOCS = ROOT / "docs"
PAGES = {page.stem: page.read_text() for page in sorted(DOCS.glob("*.md"))}
CODE = [*sorted((ROOT / "acemq_amqp").rglob("*.py")), *sorted((ROOT / "stores").rglob("*.py"))]

_ADDRESS = "amqp://guest:guest@localhost/"
_FAR_TOO_LONG = 60

#: by page, what each of its programs prints, in order; ``(?s)`` lets ``.`` pass line ends
PRINTED = {
    "event-logs": [r"state='running'.*events=1"],
    "patterns": [
        r"39 1000000\n",
        r"charged 5\ncharged 7\n",
        r"written 5\n",
        r"ordered 7\n",
        r"handled\n",
        r"(?s)1 the bank did not answer\n2 no such customer\n.*replayed=1, passed_over=1",
    ],
    "operations": [r"up \(\) 1\n", ""],
    "testing": [r"2 passed"],
}

#: before a program that looks at what others have left
_LEFT_BEFORE = {
    ("patterns", 5): """
from acemq_amqp.blocking import Envelope, Topology, connect
with connect("amqp://guest:guest@localhost/") as mq:
    mq.declare(Topology().queue("orders", dead_letter=True))
    for number, error in ("1", "the bank did not answer"), ("2", "no such customer"):
        mq.publisher(routing_key="orders.dlq").send({}, envelope=Envelope(id=number, error=error))
"""
}


def programs(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL)


def in_place(program: str, folder: Path) -> str:
    """The program with places of this test's own."""
    for named, own in {
        _ADDRESS: "memory://docs",
        "sqlite:///app.db": f"sqlite:///{folder}/app.db",
        '"app.db"': f'"{folder}/app.db"',
        "/mnt/payloads": f"{folder}/payloads",
        "/etc/acemq/": f"{folder}/",
        "/run/secrets/": f"{folder}/",
    }.items():
        program = program.replace(named, own)
    return program


def test_every_program_of_every_page_is_run_here() -> None:
    assert {page: len(programs(page)) for page in PAGES if programs(page)} == {
        page: len(printed) for page, printed in PRINTED.items()
    }


@pytest.mark.parametrize(
    ("page", "number"),
    [(page, at) for page, printed in PRINTED.items() for at in range(len(printed))],
)
def test_a_program_prints_what_it_is_there_for(page: str, number: int, tmp_path: Path) -> None:
    before = _LEFT_BEFORE.get((page, number), "")
    file = tmp_path / "test_program.py"
    file.write_text(in_place(before + programs(page)[number], tmp_path))
    certificates(tmp_path)
    is_tests = "def test_" in file.read_text()
    words = ["-m", "pytest", "-q", "-p", "no:asyncio", str(file)] if is_tests else [str(file)]
    printed = tmp_path / "printed"
    with running_python(words, surroundings(None), printed) as running:
        eventually(lambda: ended(running) or at_work(running, printed, page, number), "its words")
        if running.poll() is None:
            running.send_signal(signal.SIGTERM)
        code = running.wait(_FAR_TOO_LONG)
    text = printed.read_text()
    assert re.search(PRINTED[page][number], text), text
    assert code == 0 and "Traceback" not in text and "Warning" not in text, text


def ended(running: subprocess.Popen[bytes]) -> bool:
    return running.poll() is not None


def at_work(running: subprocess.Popen[bytes], printed: Path, page: str, number: int) -> bool:
    """Whether it has said its words, and waits in run() to be stopped."""
    said = re.search(PRINTED[page][number], printed.read_text())
    return (
        said is not None
        and "run()" in programs(page)[number]
        and catches(running.pid, signal.SIGTERM)
    )


def certificates(folder: Path) -> None:
    """The files that a page's TLS settings name."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    authority.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(
        str(folder / "client.pem")
    )


# ---------------------------------------------------------------- lists


def table_after(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    lines = PAGES[page].partition(f"\n{heading}\n")[2].splitlines()
    rows: list[str] = []
    for line in lines:
        if line.startswith("|"):
            rows.append(line)
        elif rows:
            break
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def constants() -> Iterator[tuple[Path, str]]:
    """Every text that the code has, a joined one as one."""
    for file in CODE:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "%s" for p in node.values)
                yield file, "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield file, node.value


def test_the_metrics_it_lists_are_those_of_the_code() -> None:
    exchanges = ROOT / "acemq_amqp" / "naming.py"
    counted = {
        text
        for file, text in constants()
        if file != exchanges and re.fullmatch(r"acemq(\.[a-z]+)+", text)
    }
    listed = [name for row in table_after("operations", "## Metrics") for name in quoted(row[0])]
    assert len(counted) > 20
    assert sorted(listed) == sorted(counted)


def test_the_fields_of_health_are_all_there() -> None:
    listed = [name for row in table_after("operations", "## Health") for name in quoted(row[0])]
    assert sorted(listed) == sorted(each.name for each in dataclasses.fields(HealthReport))


def test_the_lines_of_the_log_are_written_so() -> None:
    written = {re.sub(r"%[-.\w]", "…", text) for _, text in constants()}
    lines = [quoted(row[1])[0] for row in table_after("operations", "## The log")]
    assert len(lines) > 10
    assert [line for line in lines if not any(each.startswith(line) for each in written)] == []


def test_the_errors_of_connect_are_all_there() -> None:
    listed = [quoted(row[0])[0] for row in table_after("operations", "## Errors of `connect`")]
    told = [getattr(acemq_amqp, name) for name in acemq_amqp.__all__]
    kinds = [each for each in told if isinstance(each, type) and issubclass(each, CannotConnect)]
    assert sorted(listed) == sorted(kind.__name__ for kind in kinds)


def test_the_commands_are_all_there() -> None:
    listed = [
        name for row in table_after("operations", "## The command") for name in quoted(row[0])
    ]
    assert sorted(listed) == sorted(f"acemq {words}" for words in commands())


def commands() -> Iterator[str]:
    root = typer.main.get_command(app)
    # typer gives a group of click, whose type does not say that it has commands
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", {})
        yield from (f"{name} {each}" for each in inner) if inner else (name,)


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_links_to_is_there(page: str) -> None:
    for target, anchor in re.findall(r"\]\(([^):#]*)(?:#([^)]*))?\)", PAGES[page]):
        assert not target or (DOCS / target).exists(), target
        text = (DOCS / target).read_text() if target else PAGES[page]
        headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        assert not anchor or anchor in [anchored(each) for each in headings], anchor


def anchored(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_the_readme_leads_to_every_page() -> None:
    found = set(re.findall(r"\(docs/([\w-]+)\.md\)", (ROOT / "README.md").read_text()))
    assert {"patterns", "operations", "event-logs"} <= found
    for page in ("patterns", "operations"):
        found |= set(re.findall(r"\(([\w-]+)\.md\)", PAGES[page]))
    assert sorted(found) == sorted(PAGES)


def test_each_exit_code_is_the_commands_own(tmp_path: Path) -> None:
    """Done, wrong, not to be carried out; the command's own tests have the other."""
    for words, code in [
        (["schema", "sqlite"], 0),
        (["doctor", "amqp://guest:guest@127.0.0.1:1/"], 1),
        (["outbox", "status", "--database", f"sqlite:///{tmp_path}/none.db"], 2),
    ]:
        run = run_python(["-m", "acemq_amqp.cli", *words], surroundings(None))
        assert run.returncode == code, run.stderr
